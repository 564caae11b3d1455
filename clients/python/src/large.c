// Large `bytes` objects. New memory of many MiB costs a process as much to obtain, page by page and zeroed, as to fill.
// So a client remembers the last objects that it returned, and refills one when no other reference is left: it is as
// good as freed, and the change cannot be observed. An object with a cached hash is not reused, since `bytes` would
// keep that hash.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "native.h"

#include <sys/mman.h>

static const size_t again_max = (size_t)64 << 20;  // of one
static const size_t all_max = (size_t)128 << 20;

// In all releases so far the word before the bytes is their hash, -1 until it is computed; checked once, in the running
// one.
static bool hash_is_where_it_was(void) {
  static int known = -1;
  if (known >= 0) return known != 0;
  PyObject* probe = PyBytes_FromString("the hash of these bytes");
  if (probe == NULL) return false;
  const Py_hash_t* place = (const Py_hash_t*)PyBytes_AsString(probe) - 1;
  const bool unknown = *place == -1;
  const Py_hash_t hash = PyObject_Hash(probe);
  known = unknown && hash != -1 && *place == hash;
  Py_DECREF(probe);
  return known != 0;
}

static bool is_unreferenced(PyObject* bytes) {
  return Py_REFCNT(bytes) == 1 && *((const Py_hash_t*)PyBytes_AsString(bytes) - 1) == -1;
}

static PyObject* take_out(Large* large, size_t slot) {
  PyObject* taken = large->given[slot];
  large->bytes -= (size_t)PyBytes_Size(taken);
  --large->count;
  for (size_t i = slot; i < large->count; ++i) large->given[i] = large->given[i + 1];
  return taken;
}

static PyObject* fresh_bytes(Py_ssize_t size) {
  PyObject* made = PyBytes_FromStringAndSize(NULL, size);
  if (made == NULL) return NULL;
  const uintptr_t page = 4096, into = (uintptr_t)PyBytes_AsString(made);
  const uintptr_t begin = (into + page - 1) / page * page, end = (into + (size_t)size) / page * page;
  madvise((void*)begin, end - begin, MADV_HUGEPAGE);  // a hint
  return made;
}

PyObject* new_large_bytes(Client* client, Py_ssize_t size) {
  Large* large = &client->large;
  for (size_t i = 0; i < large->count; ++i) {
    if (PyBytes_Size(large->given[i]) == size && is_unreferenced(large->given[i])) return take_out(large, i);
  }
  return fresh_bytes(size);
}

void remember_large_bytes(Client* client, PyObject* bytes) {
  Large* large = &client->large;
  const size_t size = (size_t)PyBytes_Size(bytes);
  if (client->client == NULL || size > again_max || !hash_is_where_it_was()) return;
  while (large->count == large_slots || (large->count > 0 && large->bytes + size > all_max)) Py_DECREF(take_out(large, 0));
  Py_INCREF(bytes);
  large->given[large->count++] = bytes;
  large->bytes += size;
}

void forget_large_bytes(Client* client) {
  while (client->large.count > 0) Py_DECREF(take_out(&client->large, 0));
}
