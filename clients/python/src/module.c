#include "native.h"

PyTypeObject *client_type, *buffer_type, *reply_type, *queue_type, *operation_type, *progress_type;

static PyObject* error_maker;  // verbena.errors.make

static PyObject* maker(void) {
  if (error_maker == NULL) {
    PyObject* errors = PyImport_ImportModule("verbena.errors");
    if (errors == NULL) return NULL;
    error_maker = PyObject_GetAttrString(errors, "make");
    Py_DECREF(errors);
  }
  return error_maker;
}

// Of a text that may quote what a caller or a server wrote: the error must not be lost for bytes that are no UTF-8.
static PyObject* readable(const char* text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

PyObject* make_exception(void) {
  verbena_error error = {.struct_size = sizeof error};
  verbena_error_details(&error);
  PyObject* make = maker();
  if (make == NULL) return NULL;
  return PyObject_CallFunction(make, "iNNNi", error.code, readable(error.message), readable(error.s3_code), readable(error.request_id),
                               error.http_status);
}

PyObject* raise_last(int code) {
  (void)code;
  PyObject* exception = make_exception();
  if (exception != NULL) {
    PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
}

PyObject* raise_closed(void) { return raise_error(-1, "the client is closed"); }

PyObject* raise_error(int code, const char* message) {
  PyObject* make = maker();
  PyObject* exception = make == NULL ? NULL : PyObject_CallFunction(make, "isssi", code, message, "", "", 0);
  if (exception != NULL) {
    PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
}

PyObject* made_by_calls(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)type, (void)arguments, (void)keywords;
  PyErr_SetString(PyExc_TypeError, "this type is made by the calls of a client");
  return NULL;
}

// As PyModule_AddObjectRef, which 3.9 lacks.
static bool add(PyObject* module, const char* name, PyTypeObject* type) {
  if (type == NULL) return false;
  Py_INCREF((PyObject*)type);
  if (PyModule_AddObject(module, name, (PyObject*)type) == 0) return true;
  Py_DECREF((PyObject*)type);
  return false;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "verbena._native", .m_doc = "Verbena's client library (libverbena).", .m_size = -1};

PyMODINIT_FUNC PyInit__native(void) {
  PyObject* module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  client_type = make_client_type();
  buffer_type = make_buffer_type();
  reply_type = make_reply_type();
  queue_type = make_queue_type();
  operation_type = make_operation_type();
  if (!add(module, "Client", client_type) || !add(module, "Buffer", buffer_type) || !add(module, "Reply", reply_type) ||
      !add(module, "Queue", queue_type) || !add(module, "Operation", operation_type) || !add(module, "Results", make_results_type()) ||
      !add(module, "Watch", make_watch_type()) || !add(module, "Progress", make_progress_type()) ||
      PyModule_AddStringConstant(module, "version", verbena_version()) < 0) {
    return NULL;
  }
  return module;
}
