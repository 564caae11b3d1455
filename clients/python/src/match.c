// MATCH: how many leading keys of lists exist.
#include "native.h"

enum { keys_max = 65536 };

// All arrays of one call; the bytes objects become parts of the answer.
typedef struct {
  uint32_t *counts, *leading;
  int* codes;
  size_t lists, total;
  PyObject *sizes, *places;  // bytes, or NULL
} Keys;

static bool read_counts(PyObject* given, Keys* keys) {
  const Py_ssize_t lists = PyTuple_Size(given);
  if (lists < 1 || lists > keys_max) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "match: 1 to 65536 lists");
    return false;
  }
  keys->lists = (size_t)lists;
  keys->counts = PyMem_Calloc(keys->lists, sizeof *keys->counts);
  keys->leading = PyMem_Calloc(keys->lists, sizeof *keys->leading);
  keys->codes = PyMem_Calloc(keys->lists, sizeof *keys->codes);
  if (keys->counts == NULL || keys->leading == NULL || keys->codes == NULL) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < lists; ++i) {
    const unsigned long count = PyLong_AsUnsignedLong(PyTuple_GetItem(given, i));
    if (PyErr_Occurred()) return false;
    if (count < 1 || count > keys_max - keys->total) {
      PyErr_SetString(PyExc_ValueError, "match: lists have at least one hash, and all together at most 65536");
      return false;
    }
    keys->counts[i] = (uint32_t)count;
    keys->total += count;
  }
  return true;
}

static bool make_room(Keys* keys, bool sizes, bool places) {
  if (sizes) keys->sizes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(keys->total * sizeof(uint64_t)));
  if (places) keys->places = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)keys->total);
  if ((sizes && keys->sizes == NULL) || (places && keys->places == NULL)) return false;
  if (sizes) memset(PyBytes_AsString(keys->sizes), 0, keys->total * sizeof(uint64_t));
  if (places) memset(PyBytes_AsString(keys->places), 0, keys->total);
  return true;
}

static PyObject* numbers(const Keys* keys, bool codes) {
  PyObject* list = PyList_New((Py_ssize_t)keys->lists);
  for (size_t i = 0; list != NULL && i < keys->lists; ++i) {
    PyObject* number = codes ? PyLong_FromLong(keys->codes[i]) : PyLong_FromUnsignedLong(keys->leading[i]);
    if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject* answer_of(const Keys* keys, uint64_t lease) {
  PyObject* leading = numbers(keys, false);
  PyObject* codes = leading == NULL ? NULL : numbers(keys, true);
  if (codes == NULL) {
    Py_XDECREF(leading);
    return NULL;
  }
  return Py_BuildValue("(NNOOK)", leading, codes, keys->sizes == NULL ? Py_None : keys->sizes,
                       keys->places == NULL ? Py_None : keys->places, (unsigned long long)lease);
}

static PyObject* ask(Client* client, verbena_match_request* request, Keys* keys, PyObject* hashes) {
  Py_buffer view;
  if (PyObject_GetBuffer(hashes, &view, PyBUF_C_CONTIGUOUS) != 0) return NULL;
  request->hashes = view.buf == NULL ? "" : view.buf;
  request->hashes_size = (size_t)view.len;
  request->counts = keys->counts;
  request->lists = keys->lists;
  request->leading = keys->leading;
  request->codes = keys->codes;
  request->sizes = keys->sizes == NULL ? NULL : (uint64_t*)(void*)PyBytes_AsString(keys->sizes);
  request->places = keys->places == NULL ? NULL : (unsigned char*)PyBytes_AsString(keys->places);
  verbena_client* used = begin_use(client);
  int code = VERBENA_OK;
  if (used != NULL) {
    Py_BEGIN_ALLOW_THREADS
    code = verbena_match(used, request, NULL);
    Py_END_ALLOW_THREADS
    end_use(client, used);
  }
  PyBuffer_Release(&view);
  if (used == NULL) return NULL;
  return code == VERBENA_OK ? answer_of(keys, request->lease) : raise_last(code);
}

PyObject* client_match_hashes(PyObject* self, PyObject* arguments) {
  const char *bucket, *space;
  PyObject *hashes, *counts;
  unsigned long long width, lease_ms, join = 0;
  int sizes, places;
  if (!PyArg_ParseTuple(arguments, "ssOKO!ppK|K:match_hashes", &bucket, &space, &hashes, &width, &PyTuple_Type, &counts, &sizes,
                        &places, &lease_ms, &join)) {
    return NULL;
  }
  Keys keys = {0};
  verbena_match_request request = {.struct_size = sizeof request, .bucket = bucket, .name_space = space, .width = (size_t)width,
                                   .lease_ms = lease_ms, .join = join};
  PyObject* answer = NULL;
  if (read_counts(counts, &keys) && make_room(&keys, sizes, places)) answer = ask((Client*)self, &request, &keys, hashes);
  PyMem_Free(keys.counts);
  PyMem_Free(keys.leading);
  PyMem_Free(keys.codes);
  Py_XDECREF(keys.sizes);
  Py_XDECREF(keys.places);
  return answer;
}

PyObject* client_end_lease(PyObject* self, PyObject* arguments) {
  unsigned long long lease;
  if (!PyArg_ParseTuple(arguments, "K:end_lease", &lease)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  int code;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_end_lease(used, lease);
  Py_END_ALLOW_THREADS
  end_use((Client*)self, used);
  if (code != VERBENA_OK) return raise_last(code);
  Py_RETURN_NONE;
}
