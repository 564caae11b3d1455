// Keyword options of calls.
#include <string.h>

#include "native.h"

const char* text_of(PyObject* value, const char* what) {
  Py_ssize_t size = 0;
  if (!PyUnicode_Check(value)) {
    PyErr_Format(PyExc_TypeError, "%s must be str", what);
    return NULL;
  }
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text != NULL && strlen(text) != (size_t)size) {
    PyErr_Format(PyExc_ValueError, "%s has a zero byte", what);
    return NULL;
  }
  return text;
}

bool optional_text(PyObject* value, const char* what, const char** into) {
  *into = NULL;
  if (value == NULL || value == Py_None) return true;
  *into = text_of(value, what);
  return *into != NULL;
}

static bool is(PyObject* name, const char* what) { return PyUnicode_CompareWithASCIIString(name, what) == 0; }

static bool number_of(PyObject* value, uint64_t* into) {
  *into = PyLong_AsUnsignedLongLong(value);
  return !(*into == (uint64_t)-1 && PyErr_Occurred());
}

static bool range_of(PyObject* value, verbena_range* range) {
  PyObject* pair = PySequence_Tuple(value);
  if (pair == NULL) return false;
  bool ok = PyTuple_Size(pair) == 2;
  if (!ok) PyErr_SetString(PyExc_ValueError, "a range is (offset, length); length 0: to the end");
  ok = ok && number_of(PyTuple_GetItem(pair, 0), &range->offset) && number_of(PyTuple_GetItem(pair, 1), &range->length);
  Py_DECREF(pair);
  return ok;
}

static bool ranges_of(Request* request, PyObject* value) {
  PyObject* all = PySequence_Tuple(value);
  if (all == NULL) return false;
  const Py_ssize_t n = PyTuple_Size(all);
  PyMem_Free(request->ranges);
  request->ranges = PyMem_Malloc((size_t)(n + 1) * sizeof(verbena_range));
  bool ok = request->ranges != NULL && n > 0;
  if (n == 0) PyErr_SetString(PyExc_ValueError, "no range");
  for (Py_ssize_t i = 0; ok && i < n; ++i) ok = range_of(PyTuple_GetItem(all, i), &request->ranges[i]);
  Py_DECREF(all);
  request->get.ranges = request->ranges;
  request->get.range_count = (size_t)n;
  return ok;
}

// The argument called `name`: a mapping, or None. False with an exception; `pairs` is released in any case.
static bool pairs_of(PyObject* value, const char* name, Pairs* pairs, const verbena_pair** put, size_t* count) {
  if (value == Py_None) return true;
  if (!PyMapping_Check(value)) {
    PyErr_Format(PyExc_TypeError, "%s must be a mapping of str to str", name);
    return false;
  }
  pairs->items = PyMapping_Items(value);
  if (pairs->items == NULL) return false;
  const Py_ssize_t n = PyList_Size(pairs->items);
  pairs->pairs = PyMem_Malloc((size_t)(n + 1) * sizeof(verbena_pair));
  bool ok = pairs->pairs != NULL;
  for (Py_ssize_t i = 0; ok && i < n; ++i) {
    PyObject* item = PyList_GetItem(pairs->items, i);
    verbena_pair* pair = &pairs->pairs[i];
    pair->name = text_of(PyTuple_GetItem(item, 0), name);
    pair->value = pair->name == NULL ? NULL : text_of(PyTuple_GetItem(item, 1), name);
    ok = pair->value != NULL;
  }
  *put = pairs->pairs;
  *count = (size_t)n;
  return ok;
}

static bool unknown(PyObject* name) {
  PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R", name);
  return false;
}

bool parse_get(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  memset(request, 0, sizeof *request);
  request->get.struct_size = sizeof request->get;
  const Py_ssize_t n = names == NULL ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *name = PyTuple_GetItem(names, i), *value = values[nargs + i];
    bool ok = true;
    if (is(name, "range") || is(name, "ranges")) {
      if (value == Py_None) continue;
      if (is(name, "ranges")) {
        ok = ranges_of(request, value);
      } else {
        request->ranges = PyMem_Malloc(sizeof(verbena_range));
        ok = request->ranges != NULL && range_of(value, request->ranges);
        request->get.ranges = request->ranges;
        request->get.range_count = 1;
      }
    } else if (is(name, "if_match")) {
      ok = optional_text(value, "if_match", &request->get.if_match);
    } else if (is(name, "if_none_match")) {
      ok = optional_text(value, "if_none_match", &request->get.if_none_match);
    } else if (is(name, "version_id")) {
      ok = optional_text(value, "version_id", &request->get.version_id);
    } else if (is(name, "metadata")) {
      request->want_info = PyObject_IsTrue(value) == 1;
      request->get.info = request->want_info ? &request->info : NULL;
    } else if (is(name, "verify_device")) {
      request->get.verify_device = PyObject_IsTrue(value) == 1;
    } else if (is(name, "size_max")) {
      ok = value == Py_None || number_of(value, &request->size_max);
    } else {
      ok = unknown(name);
    }
    if (!ok) return false;
  }
  return true;
}

bool within_bound(const Request* request, uint64_t bytes) {
  if (request->size_max == 0 || bytes <= request->size_max) return true;
  raise_error(VERBENA_TOO_LARGE, "larger than what the caller takes");
  return false;
}

bool append_place(PyObject* at, uint64_t* place) {
  *place = VERBENA_APPEND_AT_END;
  if (at == NULL || at == Py_None) return true;
  *place = PyLong_AsUnsignedLongLong(at);
  if (PyErr_Occurred()) return false;
  if (*place != VERBENA_APPEND_AT_END) return true;
  PyErr_SetString(PyExc_ValueError, "no object is so long");
  return false;
}

static bool parse_store(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names, bool appends) {
  memset(request, 0, sizeof *request);
  request->put.struct_size = sizeof request->put;
  request->at = VERBENA_APPEND_AT_END;
  const Py_ssize_t n = names == NULL ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *name = PyTuple_GetItem(names, i), *value = values[nargs + i];
    bool ok = true;
    if (is(name, "content_type")) {
      ok = optional_text(value, "content_type", &request->put.content_type);
    } else if (is(name, "metadata")) {
      ok = pairs_of(value, "metadata", &request->metadata, &request->put.metadata, &request->put.metadata_count);
    } else if (is(name, "headers")) {
      ok = pairs_of(value, "headers", &request->headers, &request->put.headers, &request->put.header_count);
    } else if (is(name, "if_match")) {
      ok = optional_text(value, "if_match", &request->put.if_match);
    } else if (is(name, "if_none_match")) {
      ok = optional_text(value, "if_none_match", &request->put.if_none_match);
    } else if (is(name, "checksum")) {
      ok = optional_text(value, "checksum", &request->put.checksum);
    } else if (is(name, "md5_etag")) {
      request->put.md5_etag = PyObject_IsTrue(value) == 1;
    } else if (is(name, "verify_device")) {
      request->put.verify_device = PyObject_IsTrue(value) == 1;
    } else if (is(name, "ttl")) {
      request->put.ttl_s = value == Py_None ? 0 : PyLong_AsUnsignedLongLong(value);
      ok = !PyErr_Occurred();
    } else if (is(name, "describe")) {
      if (PyObject_IsTrue(value) == 1) request->put.info = &request->info;
    } else if (appends && is(name, "at")) {
      ok = append_place(value, &request->at);
    } else {
      ok = unknown(name);
    }
    if (!ok) return false;
  }
  return true;
}

bool parse_put(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  return parse_store(request, values, nargs, names, false);
}

bool parse_append(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  return parse_store(request, values, nargs, names, true);
}

void free_request(Request* request) {
  PyMem_Free(request->ranges);
  PyMem_Free(request->metadata.pairs);
  Py_XDECREF(request->metadata.items);
  PyMem_Free(request->headers.pairs);
  Py_XDECREF(request->headers.items);
  verbena_info_free(request->info);
}
