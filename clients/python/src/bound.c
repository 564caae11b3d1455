// The bound of a bucket that evicts.
#include "native.h"

static PyObject* set_or_remove(Client* client, const char* bucket, const verbena_bound* bound) {
  verbena_client* used = begin_use(client);
  if (used == NULL) return NULL;
  int code;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_set_bound(used, bucket, bound);
  Py_END_ALLOW_THREADS
  end_use(client, used);
  if (code != VERBENA_OK) return raise_last(code);
  Py_RETURN_NONE;
}

PyObject* client_set_bound(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "bytes_max", "objects_max", "policy", "renew_on_read", "keep_suffix", NULL};
  const char *bucket = NULL, *policy = "", *keep = "/namespace.json";
  verbena_bound bound = {.struct_size = sizeof bound};
  PyObject *bytes = NULL, *objects = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$OOsps:set_bound", names, &bucket, &bytes, &objects, &policy,
                                   &bound.renew_on_read, &keep)) {
    return NULL;
  }
  if (bytes != NULL && bytes != Py_None) bound.bytes_max = PyLong_AsUnsignedLongLong(bytes);
  if (!PyErr_Occurred() && objects != NULL && objects != Py_None) bound.objects_max = PyLong_AsUnsignedLongLong(objects);
  if (PyErr_Occurred()) return NULL;
  if (strlen(policy) >= sizeof bound.policy) return PyErr_Format(PyExc_ValueError, "no such policy");
  strcpy(bound.policy, policy);
  if (strlen(keep) >= sizeof bound.keep_suffix) return PyErr_Format(PyExc_ValueError, "keep_suffix has at most 128 bytes");
  strcpy(bound.keep_suffix, keep);
  bound.keep_none = keep[0] == '\0';
  return set_or_remove((Client*)self, bucket, &bound);
}

PyObject* client_remove_bound(PyObject* self, PyObject* arguments) {
  const char* bucket = NULL;
  if (!PyArg_ParseTuple(arguments, "s:remove_bound", &bucket)) return NULL;
  return set_or_remove((Client*)self, bucket, NULL);
}

PyObject* client_bound(PyObject* self, PyObject* arguments) {
  const char* bucket = NULL;
  if (!PyArg_ParseTuple(arguments, "s:bound", &bucket)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  verbena_bound bound = {.struct_size = sizeof bound};
  int code;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_get_bound(used, bucket, &bound);
  Py_END_ALLOW_THREADS
  end_use((Client*)self, used);
  if (code != VERBENA_OK) return raise_last(code);
  if (bound.policy[0] == '\0') Py_RETURN_NONE;
  return Py_BuildValue("{s:K,s:K,s:s,s:N,s:s}", "bytes_max", (unsigned long long)bound.bytes_max, "objects_max",
                       (unsigned long long)bound.objects_max, "policy", bound.policy, "renew_on_read",
                       PyBool_FromLong(bound.renew_on_read), "keep_suffix", bound.keep_suffix);
}
