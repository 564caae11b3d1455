#include "native.h"

PyTypeObject *client_type, *buffer_type, *reply_type, *queue_type, *operation_type;

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

PyObject* make_exception(void) {
  verbena_error error = {.struct_size = sizeof error};
  verbena_error_details(&error);
  PyObject* make = maker();
  if (make == NULL) return NULL;
  return PyObject_CallFunction(make, "isssi", error.code, error.message, error.s3_code, error.request_id, error.http_status);
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

PyObject* raise_closed(void) {
  PyObject* make = maker();
  PyObject* exception = make == NULL ? NULL : PyObject_CallFunction(make, "isssi", -1, "the client is closed", "", "", 0);
  if (exception != NULL) {
    PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
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
  PyTypeObject* results = make_results_type();
  if (!client_type || !buffer_type || !reply_type || !queue_type || !operation_type || !results) return NULL;
  if (PyModule_AddObjectRef(module, "Client", (PyObject*)client_type) < 0 ||
      PyModule_AddObjectRef(module, "Buffer", (PyObject*)buffer_type) < 0 ||
      PyModule_AddObjectRef(module, "Reply", (PyObject*)reply_type) < 0 ||
      PyModule_AddObjectRef(module, "Queue", (PyObject*)queue_type) < 0 ||
      PyModule_AddObjectRef(module, "Operation", (PyObject*)operation_type) < 0 ||
      PyModule_AddObjectRef(module, "Results", (PyObject*)results) < 0 ||
      PyModule_AddStringConstant(module, "version", verbena_version()) < 0) {
    return NULL;
  }
  return module;
}
