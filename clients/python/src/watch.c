// Watches: the library's change events as Python objects.
#include "native.h"

typedef struct {
  PyObject_HEAD
  verbena_watch* watch;  // NULL after its release
  size_t users;          // calls in progress
  bool asking;           // a call uses the library's key buffer, which the next one overwrites
  bool ended;
  Client* client;
} Watch;

PyTypeObject* watch_type;

static void release(Watch* self) {
  verbena_watch* const last = self->watch;
  if (last == NULL || self->users != 0) return;
  self->watch = NULL;
  Py_BEGIN_ALLOW_THREADS
  verbena_watch_end(last);
  Py_END_ALLOW_THREADS
}

PyObject* client_watch_begin(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "prefix", NULL};
  const char* bucket;
  verbena_watch_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|z:watch_begin", names, &bucket, &options.prefix)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  options.cancellation = ((Client*)self)->cancellation;
  verbena_watch* begun = NULL;
  int code = VERBENA_OK;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_watch_begin(used, bucket, &options, &begun);
  Py_END_ALLOW_THREADS
  end_use((Client*)self, used);
  if (code != VERBENA_OK) return raise_last(code);
  Watch* made = (Watch*)PyType_GenericAlloc(watch_type, 0);
  if (made == NULL) {
    verbena_watch_end(begun);
    return NULL;
  }
  made->watch = begun;
  Py_INCREF(self);
  made->client = (Client*)self;
  return (PyObject*)made;
}

// take(timeout_ms) -> None, ("gap",), or (what, key, size, time_us, etag, version_id, number)
static PyObject* watch_take(PyObject* self, PyObject* arguments) {
  int timeout_ms = 0;
  if (!PyArg_ParseTuple(arguments, "i:take", &timeout_ms)) return NULL;
  Watch* watch = (Watch*)self;
  if (watch->watch == NULL || watch->ended) {
    PyErr_SetString(PyExc_ValueError, "the watch has ended");
    return NULL;
  }
  if (watch->asking) {
    PyErr_SetString(PyExc_RuntimeError, "another thread waits for this watch's next change");
    return NULL;
  }
  if (watch->client->client == NULL) return raise_closed();
  verbena_change change = {.struct_size = sizeof change};
  const char* key = NULL;
  int told = 0;
  ++watch->users;
  watch->asking = true;
  Py_BEGIN_ALLOW_THREADS
  told = verbena_watch_next(watch->watch, timeout_ms, &key, &change);
  Py_END_ALLOW_THREADS
  PyObject* answer = NULL;
  if (told < 0) {
    raise_last(-told);
  } else if (told == VERBENA_WATCH_GAP) {
    answer = Py_BuildValue("(s)", "gap");
  } else if (told == VERBENA_WATCH_CHANGE) {
    PyObject* name = PyUnicode_DecodeUTF8(key, (Py_ssize_t)strlen(key), "surrogateescape");
    answer = name == NULL ? NULL
                          : Py_BuildValue("(sNKLssK)", verbena_key_event_name(change.what), name, (unsigned long long)change.size,
                                          (long long)change.time_us, change.etag, change.version_id, (unsigned long long)change.number);
  } else {
    Py_INCREF(Py_None);
    answer = Py_None;
  }
  watch->asking = false;
  --watch->users;
  if (watch->ended) release(watch);
  return answer;
}

static PyObject* watch_end(PyObject* self, PyObject* unused) {
  (void)unused;
  Watch* watch = (Watch*)self;
  watch->ended = true;
  verbena_watch* const there = watch->watch;
  if (there != NULL) {
    ++watch->users;
    Py_BEGIN_ALLOW_THREADS
    verbena_watch_stop(there);
    Py_END_ALLOW_THREADS
    --watch->users;
    release(watch);
  }
  Py_RETURN_NONE;
}

static PyObject* get_ended(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((Watch*)self)->ended);
}

static void watch_dealloc(PyObject* self) {
  release((Watch*)self);
  Py_XDECREF((PyObject*)((Watch*)self)->client);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"take", watch_take, METH_VARARGS, "take(timeout_ms) -> None, (\"gap\",) or (what, key, size, time_us, etag, version_id, number)"},
    {"end", watch_end, METH_NOARGS, "Ends the watch: who waits for it is woken."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef attributes[] = {{"ended", get_ended, NULL, "True once the watch has ended.", NULL}, {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_watch_type(void) {
  static PyType_Slot slots[] = {{Py_tp_new, made_by_calls}, {Py_tp_dealloc, watch_dealloc}, {Py_tp_methods, methods}, {Py_tp_getset, attributes}, {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Watch", sizeof(Watch), 0, Py_TPFLAGS_DEFAULT, slots};
  return watch_type = (PyTypeObject*)PyType_FromSpec(&spec);
}
