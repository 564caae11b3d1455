// Batches: many objects in one call.
#include "native.h"

enum { items_max = 4096 };

static bool read_item(PyObject* given, verbena_item* item) {
  PyObject *bucket, *key;
  Py_ssize_t offset, size;
  if (!PyTuple_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "an item is a tuple (bucket, key, offset, size)");
    return false;
  }
  if (!PyArg_ParseTuple(given, "UUnn;an item is (bucket, key, offset, size)", &bucket, &key, &offset, &size)) return false;
  if (offset < 0 || size < 0) {
    PyErr_SetString(PyExc_ValueError, "an item's offset and size are not below 0");
    return false;
  }
  item->struct_size = sizeof *item;
  item->bucket = text_of(bucket, "bucket");
  item->key = item->bucket == NULL ? NULL : text_of(key, "key");
  item->offset = (size_t)offset;
  item->size = (size_t)size;
  return item->key != NULL;
}

static PyObject* list_of(const verbena_item_result* results, size_t count) {
  PyObject* list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < count; ++i) {
    const verbena_item_result* one = &results[i];
    PyObject* entry =
        Py_BuildValue("iKKLss", one->code, (unsigned long long)one->bytes, (unsigned long long)one->size,
                      (long long)one->modified_us, one->etag, one->version_id);
    if (entry == NULL || PyList_Append(list, entry) < 0) Py_CLEAR(list);
    Py_XDECREF(entry);
  }
  return list;
}

// With the memory open and the client in use.
static PyObject* fetch(verbena_client* used, const Memory* into, verbena_item* items, verbena_item_result* results,
                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (items[i].offset > into->size || items[i].size > into->size - items[i].offset) {
      PyErr_SetString(PyExc_ValueError, "an item lies outside the memory");
      return NULL;
    }
  }
  verbena_buffer* own = NULL;
  int code = VERBENA_OK;
  Py_BEGIN_ALLOW_THREADS
  if (into->buffer == NULL) {
    const verbena_memory memory = {.struct_size = sizeof memory, .address = into->data, .size = into->size};
    code = verbena_buffer_register(used, &memory, &own);
  }
  verbena_buffer* const window = into->buffer == NULL ? own : into->buffer->buffer;
  if (code == VERBENA_OK) {
    const verbena_batch batch = {.struct_size = sizeof batch, .items = items, .count = count, .windows = &window,
                                 .window_count = 1, .results = results, .result_size = sizeof *results};
    code = verbena_get_many(used, &batch, NULL);
  }
  verbena_buffer_free(own);
  Py_END_ALLOW_THREADS
  return code == VERBENA_OK ? list_of(results, count) : raise_last(code);
}

PyObject* client_get_batch(PyObject* self, PyObject* arguments) {
  PyObject *given, *into;
  if (!PyArg_ParseTuple(arguments, "OO:get_batch", &given, &into)) return NULL;
  PyObject* kept = PySequence_Tuple(given);  // its items' text stays while bytes move
  if (kept == NULL) return NULL;
  const Py_ssize_t count = PyTuple_Size(kept);
  if (count < 1 || count > items_max) {
    PyErr_SetString(PyExc_ValueError, "a batch has 1 to 4096 items");
    Py_DECREF(kept);
    return NULL;
  }
  verbena_item* items = PyMem_Calloc((size_t)count, sizeof *items);
  verbena_item_result* results = PyMem_Calloc((size_t)count, sizeof *results);
  bool ok = items != NULL && results != NULL;
  if (!ok) PyErr_NoMemory();
  for (Py_ssize_t i = 0; ok && i < count; ++i) ok = read_item(PyTuple_GetItem(kept, i), &items[i]);
  PyObject* list = NULL;
  verbena_client* used = ok ? begin_use((Client*)self) : NULL;
  if (used != NULL) {
    Memory memory;
    if (open_memory(&memory, into, true)) {
      list = fetch(used, &memory, items, results, (size_t)count);
      close_memory(&memory);
    }
    end_use((Client*)self, used);
  }
  PyMem_Free(items);
  PyMem_Free(results);
  Py_DECREF(kept);
  return list;
}
