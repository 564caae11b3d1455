// Batches of blocks: equal pieces of memory, named by hashes behind one prefix, without an object of Python for each.
#include "native.h"

enum { hash_max = 64, items_max = 4096 };

// A call's arguments. Its items are virtual: layer by layer, all blocks of the first layer first.
typedef struct {
  const char *bucket, *prefix;
  size_t prefix_size;
  PyObject *hashes, *offsets, *layers;  // tuples; offsets or layers may be NULL
  size_t blocks, size;
  size_t first, count;  // of the items: those of this call
  char* names;          // of the blocks, `stride` bytes each; empty: not written yet
  size_t stride;
} Blocks;

static PyObject* as_tuple(PyObject* given, bool* ok) {
  if (given == Py_None) return NULL;
  PyObject* made = PySequence_Tuple(given);
  *ok = *ok && made != NULL;
  return made;
}

static bool number_of(PyObject* value, size_t* into) {
  const Py_ssize_t number = value == NULL ? -1 : PyLong_AsSsize_t(value);
  if (number >= 0) {
    *into = (size_t)number;
    return true;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "offsets and sizes are not below 0");
  return false;
}

static const char* name_of(const Blocks* blocks, size_t block) {
  static const char digits[] = "0123456789abcdef";
  char* const name = blocks->names + block * blocks->stride;
  if (name[blocks->stride - 1] != 0) return name;
  char* hash = NULL;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(PyTuple_GetItem(blocks->hashes, (Py_ssize_t)block), &hash, &size) != 0) return NULL;
  if (size < 1 || size > hash_max) {
    PyErr_SetString(PyExc_ValueError, "a block's hash has 1 to 64 bytes");
    return NULL;
  }
  memcpy(name, blocks->prefix, blocks->prefix_size);
  char* to = name + blocks->prefix_size;
  for (Py_ssize_t i = 0; i < size; ++i) {
    *to++ = digits[(unsigned char)hash[i] >> 4];
    *to++ = digits[hash[i] & 15];
  }
  *to = 0;
  name[blocks->stride - 1] = 1;
  return name;
}

static bool fill_item(const Blocks* blocks, size_t index, uint64_t ttl_s, bool if_absent, verbena_item* item) {
  const size_t block = index % blocks->blocks;
  item->struct_size = sizeof *item;
  item->ttl_s = ttl_s;
  if (if_absent) item->if_none_match = "*";
  item->bucket = blocks->bucket;
  item->key = name_of(blocks, block);
  if (item->key == NULL) return false;
  size_t offset = block * blocks->size, first = 0, size = blocks->size;
  if (blocks->offsets != NULL && !number_of(PyTuple_GetItem(blocks->offsets, (Py_ssize_t)block), &offset)) return false;
  if (blocks->layers != NULL) {
    PyObject* layer = PyTuple_GetItem(blocks->layers, (Py_ssize_t)(index / blocks->blocks));
    if (layer == NULL || !PyTuple_Check(layer) || PyTuple_Size(layer) != 2) {
      PyErr_SetString(PyExc_TypeError, "a layer is a tuple (first byte, bytes)");
      return false;
    }
    if (!number_of(PyTuple_GetItem(layer, 0), &first) || !number_of(PyTuple_GetItem(layer, 1), &size)) return false;
    item->range_first = first;
    item->range_length = size;
  }
  if (offset > SIZE_MAX - first) {
    PyErr_SetString(PyExc_ValueError, "a block lies outside the memory");
    return false;
  }
  item->offset = offset + first;
  item->size = size;
  return true;
}

// What the call asks for, and room for its names.
static bool check(Blocks* blocks) {
  if (blocks->hashes == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "hashes are a sequence of bytes");
    return false;
  }
  blocks->blocks = (size_t)PyTuple_Size(blocks->hashes);
  const size_t layers = blocks->layers == NULL ? 1 : (size_t)PyTuple_Size(blocks->layers);
  const bool placed = blocks->offsets == NULL || (size_t)PyTuple_Size(blocks->offsets) == blocks->blocks;
  const size_t items = blocks->blocks > SIZE_MAX / (layers + 1) ? 0 : blocks->blocks * layers;
  if (!placed || blocks->count < 1 || blocks->count > items_max || blocks->first > items || blocks->count > items - blocks->first) {
    PyErr_SetString(PyExc_ValueError, "a call has 1 to 4096 items of its blocks, each with an offset");
    return false;
  }
  if (blocks->size != 0 && blocks->blocks > SIZE_MAX / blocks->size) {
    PyErr_SetString(PyExc_ValueError, "a block lies outside the memory");
    return false;
  }
  blocks->stride = blocks->prefix_size + 2 * hash_max + 2;
  blocks->names = PyMem_Calloc(blocks->blocks, blocks->stride);
  if (blocks->names == NULL) PyErr_NoMemory();
  return blocks->names != NULL;
}

static PyObject* run(Client* client, const Call* call, Blocks* blocks, PyObject* memory) {
  Results* results = check(blocks) ? new_results(blocks->count) : NULL;
  verbena_item* items = results == NULL ? NULL : PyMem_Calloc(blocks->count, sizeof *items);
  if (results != NULL && items == NULL) PyErr_NoMemory();
  bool ok = items != NULL;
  for (size_t i = 0; ok && i < blocks->count; ++i) {
    ok = fill_item(blocks, blocks->first + i, call->ttl_s, call->kind == batch_put_absent, &items[i]);
  }
  ok = ok && run_items(client, call, items, memory, results);
  PyMem_Free(items);
  if (ok) return (PyObject*)results;
  Py_XDECREF((PyObject*)results);
  return NULL;
}

PyObject* client_batch_of_blocks(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  if (nargs != 13 || names != NULL) {
    PyErr_SetString(PyExc_TypeError, "batch_of_blocks(kind, bucket, prefix, hashes, memory, size, offsets, layers, first, count, progress, lease, ttl)");
    return NULL;
  }
  PyObject* const rest[] = {values[0], Py_None, Py_None, values[10], values[11], values[12]};
  Call call = {0};
  if (!read_call(rest, 6, NULL, &call)) return NULL;
  if (call.kind == batch_head || call.kind == batch_remove) {
    PyErr_SetString(PyExc_ValueError, "blocks are got or put");
    return NULL;
  }
  Blocks blocks = {.bucket = text_of(values[1], "bucket"), .prefix = text_of(values[2], "prefix")};
  if (blocks.bucket == NULL || blocks.prefix == NULL) return NULL;
  blocks.prefix_size = strlen(blocks.prefix);
  if (!number_of(values[5], &blocks.size) || !number_of(values[8], &blocks.first) || !number_of(values[9], &blocks.count)) return NULL;
  bool ok = true;
  blocks.hashes = as_tuple(values[3], &ok);
  blocks.offsets = ok ? as_tuple(values[6], &ok) : NULL;
  blocks.layers = ok ? as_tuple(values[7], &ok) : NULL;
  PyObject* results = ok ? run((Client*)self, &call, &blocks, values[4]) : NULL;
  PyMem_Free(blocks.names);
  Py_XDECREF(blocks.hashes);
  Py_XDECREF(blocks.offsets);
  Py_XDECREF(blocks.layers);
  return results;
}
