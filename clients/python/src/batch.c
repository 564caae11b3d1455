// Batches: many objects in one call, and Results, the outcome of each.
#include "native.h"

enum { items_max = 4096 };

static PyTypeObject* results_type;

// ---- Items ----

static bool place_of(PyObject* value, size_t* into) {
  const Py_ssize_t number = PyLong_AsSsize_t(value);
  if (number >= 0) {
    *into = (size_t)number;
    return true;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an item's offset and size are not below 0");
  return false;
}

static bool read_range(PyObject* given, verbena_item* item) {
  size_t first = 0, length = 0;
  if (!place_of(PyTuple_GetItem(given, 4), &first) || !place_of(PyTuple_GetItem(given, 5), &length)) return false;
  item->range_first = first;
  item->range_length = length;
  return true;
}

static bool read_item(PyObject* given, const Call* call, verbena_item* item) {
  const bool placed = call->kind != batch_head && call->kind != batch_remove;
  const Py_ssize_t count = PyTuple_Check(given) ? PyTuple_Size(given) : 0;
  if (count != (placed ? 4 : 2) && !(call->kind == batch_get && count == 6)) {
    PyErr_SetString(PyExc_TypeError, placed ? "an item is a tuple (bucket, key, offset, size)" : "an item is a tuple (bucket, key)");
    return false;
  }
  item->struct_size = sizeof *item;
  item->ttl_s = call->ttl_s;
  if (call->kind == batch_put_absent) item->if_none_match = "*";
  item->bucket = text_of(PyTuple_GetItem(given, 0), "bucket");
  item->key = item->bucket == NULL ? NULL : text_of(PyTuple_GetItem(given, 1), "key");
  if (item->key == NULL || !placed) return item->key != NULL;
  return place_of(PyTuple_GetItem(given, 2), &item->offset) && place_of(PyTuple_GetItem(given, 3), &item->size) &&
         (count == 4 || read_range(given, item));
}

static bool inside(const verbena_item* items, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    if (items[i].offset <= size && items[i].size <= size - items[i].offset) continue;
    PyErr_SetString(PyExc_ValueError, "an item lies outside the memory");
    return false;
  }
  return true;
}

// ---- The call ----

static int run_kind(verbena_client* used, BatchKind kind, const verbena_batch* batch, uint64_t lease, verbena_transfer* moved) {
  switch (kind) {
    case batch_get: return verbena_get_many_leased(used, batch, lease, moved);
    case batch_put:
    case batch_put_absent: return verbena_put_many(used, batch, NULL);
    case batch_head: return verbena_head_many(used, batch, NULL);
    case batch_remove: return verbena_delete_many(used, batch, NULL);
  }
  return VERBENA_INVALID_ARGUMENT;
}

// Runs with the memory acquired (NULL for head and remove) and the client in use.
static bool transfer(verbena_client* used, const Call* call, const Memory* memory, const verbena_item* items, Results* results) {
  if (memory != NULL && !inside(items, results->count, memory->size)) return false;
  verbena_buffer* own = NULL;
  int code = VERBENA_OK;
  verbena_lease take = call->take;
  verbena_transfer moved = {.struct_size = sizeof moved};
  Py_BEGIN_ALLOW_THREADS
  if (memory != NULL && memory->window == NULL && memory->size > 0) {
    const verbena_memory given = {.struct_size = sizeof given, .address = memory->data, .size = memory->size};
    code = verbena_buffer_register(used, &given, &own);
  }
  verbena_buffer* const window = memory == NULL || memory->window == NULL ? own : memory->window;
  if (code == VERBENA_OK) {
    const verbena_batch batch = {.struct_size = sizeof batch, .items = items, .count = results->count, .windows = &window,
                                 .window_count = window == NULL ? 0 : 1, .results = results->results,
                                 .result_size = sizeof *results->results, .context = call->progress,
                                 .in_order = call->progress == NULL ? NULL : progress_in_order,
                                 .take = take.ms == 0 ? NULL : &take, .verify_device = call->verify_device};
    code = run_kind(used, call->kind, &batch, call->lease, call->verify_device ? &moved : NULL);
    if (code == VERBENA_OK && call->progress != NULL) progress_batch_ended(call->progress, results->count);
  }
  verbena_buffer_free(own);
  Py_END_ALLOW_THREADS
  if (code != VERBENA_OK) return raise_last(code) != NULL;
  results->lease = take.lease;
  memcpy(results->device_verified, moved.device_verified, sizeof results->device_verified);
  for (size_t i = 0; i < results->count; ++i) {
    const bool failed = results->results[i].code != VERBENA_OK;
    const bool present = call->kind == batch_put_absent && results->results[i].code == VERBENA_PRECONDITION_FAILED;
    results->failed += failed && !present;
    results->present += present;
    results->shorter += call->kind == batch_get && !failed && results->results[i].bytes != items[i].size;
  }
  return true;
}

Results* new_results(size_t count) {
  Results* made = (Results*)PyType_GenericAlloc(results_type, 0);
  if (made == NULL) return NULL;
  made->results = PyMem_Malloc(count * sizeof *made->results);  // read after all are filled
  made->count = count;
  if (made->results != NULL) return made;
  Py_DECREF((PyObject*)made);
  return (Results*)PyErr_NoMemory();
}

bool run_items(Client* client, const Call* call, const verbena_item* items, PyObject* memory, Results* results) {
  verbena_client* used = begin_use(client);
  if (used == NULL) return false;
  bool ok = true;
  if (call->kind != batch_head && call->kind != batch_remove) {
    Memory opened;
    ok = open_window(&opened, used, memory, call->kind == batch_get);
    if (ok) {
      ok = transfer(used, call, &opened, items, results);
      close_memory(&opened);
    }
  } else {
    ok = transfer(used, call, NULL, items, results);
  }
  end_use(client, used);
  return ok;
}

static bool batch_of(Client* client, const Call* call, PyObject* kept, PyObject* memory, Results* results) {
  verbena_item* items = PyMem_Calloc(results->count, sizeof *items);
  bool ok = items != NULL;
  if (!ok) PyErr_NoMemory();
  for (size_t i = 0; ok && i < results->count; ++i) ok = read_item(PyTuple_GetItem(kept, (Py_ssize_t)i), call, &items[i]);
  ok = ok && run_items(client, call, items, memory, results);
  PyMem_Free(items);
  return ok;
}

// batch(kind, items, memory[, progress[, lease[, ttl[, lease_ms[, joins[, verify_device]]]]]])
bool read_call(PyObject* const* values, Py_ssize_t nargs, PyObject* names, Call* call) {
  const long kind = nargs >= 3 && nargs <= 9 && names == NULL ? PyLong_AsLong(values[0]) : -1;
  const bool watched = nargs > 3 && values[3] != Py_None;
  if (kind < batch_get || kind > batch_put_absent || (watched && !PyObject_TypeCheck(values[3], progress_type))) {
    PyErr_SetString(PyExc_TypeError, "batch(kind, items, memory, progress, lease, ttl, lease_ms, joins, verify_device)");
    return false;
  }
  call->kind = (BatchKind)kind;
  call->progress = watched ? (Progress*)values[3] : NULL;
  if (nargs > 4) call->lease = PyLong_AsUnsignedLongLong(values[4]);
  if (nargs > 5 && !PyErr_Occurred()) call->ttl_s = PyLong_AsUnsignedLongLong(values[5]);
  if (nargs > 6 && !PyErr_Occurred()) call->take.ms = PyLong_AsUnsignedLongLong(values[6]);
  if (nargs > 7 && !PyErr_Occurred()) call->take.lease = PyLong_AsUnsignedLongLong(values[7]);
  if (nargs > 8) call->verify_device = PyObject_IsTrue(values[8]) == 1;
  call->take.struct_size = sizeof call->take;
  return !PyErr_Occurred();
}

PyObject* client_batch(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  Call call = {0};
  if (!read_call(values, nargs, names, &call)) return NULL;
  PyObject* kept = PySequence_Tuple(values[1]);  // keeps the items' texts alive while bytes move
  if (kept == NULL) return NULL;
  const Py_ssize_t count = PyTuple_Size(kept);
  Results* results = NULL;
  if (count < 1 || count > items_max) {
    PyErr_SetString(PyExc_ValueError, "a batch has 1 to 4096 items");
  } else {
    results = new_results((size_t)count);
  }
  if (results != NULL && !batch_of((Client*)self, &call, kept, values[2], results)) {
    Py_DECREF((PyObject*)results);
    results = NULL;
  }
  Py_DECREF(kept);
  return (PyObject*)results;
}

// ---- Results ----

static Py_ssize_t results_length(PyObject* self) { return (Py_ssize_t)((Results*)self)->count; }

static PyObject* results_item(PyObject* self, Py_ssize_t index) {
  const Results* results = (Results*)self;
  if (index < 0 || (size_t)index >= results->count) {
    PyErr_SetString(PyExc_IndexError, "no such item");
    return NULL;
  }
  const verbena_item_result* one = &results->results[index];
  return Py_BuildValue("iKKLss", one->code, (unsigned long long)one->bytes, (unsigned long long)one->size,
                       (long long)one->modified_us, one->etag, one->version_id);
}

static PyObject* get_failed(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromSize_t(((Results*)self)->failed);
}

static PyObject* get_shorter(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromSize_t(((Results*)self)->shorter);
}

static PyObject* get_present(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromSize_t(((Results*)self)->present);
}

static PyObject* get_lease(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((Results*)self)->lease);
}

static PyObject* get_device_verified(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((Results*)self)->device_verified);
}

static void results_dealloc(PyObject* self) {
  PyMem_Free(((Results*)self)->results);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyGetSetDef results_attributes[] = {{"failed", get_failed, NULL, "How many items have failed.", NULL},
                                           {"shorter", get_shorter, NULL, "How many objects did not fill their place.", NULL},
                                           {"present", get_present, NULL, "How many objects were there (put if absent).", NULL},
                                           {"lease", get_lease, NULL, "Of what was found; 0: none.", NULL},
                                           {"device_verified", get_device_verified, NULL, "What checked a GPU's memory.", NULL},
                                           {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_results_type(void) {
  static PyType_Slot slots[] = {
      {Py_tp_new, made_by_calls}, {Py_tp_dealloc, results_dealloc},
      {Py_tp_getset, results_attributes},
      {Py_sq_length, results_length},
      {Py_sq_item, results_item},
      {Py_tp_doc, "Of each item (code, bytes, size, modified_us, etag, version_id), made when it is looked at."},
      {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Results", sizeof(Results), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  results_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return results_type;
}
