// Client: blocking calls. They release the GIL.
#include <string.h>

#include "native.h"

verbena_client* begin_use(Client* client) {
  if (client->client == NULL) {
    raise_closed();
    return NULL;
  }
  ++client->users;
  return client->client;
}

static void end_client(Client* client, verbena_client* last) {
  Pool pool = client->pool;
  memset(&client->pool, 0, sizeof client->pool);
  verbena_cancellation* cancellation = client->cancellation;
  client->cancellation = NULL;
  forget_large_bytes(client);
  Py_BEGIN_ALLOW_THREADS
  for (size_t i = 0; i < pool.count; ++i) verbena_buffer_free(pool.buffer[i]);
  verbena_close(last);
  verbena_cancellation_free(cancellation);
  Py_END_ALLOW_THREADS
}

void end_use(Client* client, verbena_client* used) {
  (void)used;
  if (--client->users != 0 || client->leaving == NULL) return;
  verbena_client* last = client->leaving;
  client->leaving = NULL;
  end_client(client, last);
}

// Sizes are rounded up, by at most an eighth, so that pooled memory fits more requests.
size_t pool_class(size_t size) {
  if (size <= 4096) return 4096;
  if (size > SIZE_MAX / 2) return size;  // which nothing can allocate
  size_t step = 4096;
  while (step < size / 16) step *= 2;
  return (size + step - 1) / step * step;
}

verbena_buffer* pool_take(Client* client, size_t size) {
  const size_t wanted = pool_class(size);
  Pool* pool = &client->pool;
  for (size_t i = pool->count; i-- > 0;) {
    verbena_buffer* found = pool->buffer[i];
    if (verbena_buffer_size(found) != wanted) continue;
    pool->buffer[i] = pool->buffer[--pool->count];
    pool->bytes -= wanted;
    return found;
  }
  return NULL;
}

void pool_put(Client* client, verbena_buffer* buffer) {
  Pool* pool = &client->pool;
  const size_t size = verbena_buffer_size(buffer);
  if (client->client == NULL || pool->count == pool_slots || pool->bytes + size > pool_bytes_max) {
    verbena_buffer_free(buffer);
    return;
  }
  pool->buffer[pool->count++] = buffer;
  pool->bytes += size;
}

// ---- Making and closing ----

static bool set_option(verbena_options* options, PyObject* name, PyObject* value) {
  static const struct { const char* name; size_t offset; char kind; } known[] = {
      {"endpoint", offsetof(verbena_options, endpoint), 's'},
      {"native_endpoint", offsetof(verbena_options, native_endpoint), 's'},
      {"access_key", offsetof(verbena_options, access_key), 's'},
      {"secret_key", offsetof(verbena_options, secret_key), 's'},
      {"session_token", offsetof(verbena_options, session_token), 's'},
      {"region", offsetof(verbena_options, region), 's'},
      {"via", offsetof(verbena_options, via), 's'},
      {"provider", offsetof(verbena_options, provider), 's'},
      {"ca_file", offsetof(verbena_options, ca_file), 's'},
      {"encryption", offsetof(verbena_options, encryption), 's'},
      {"insecure", offsetof(verbena_options, insecure), 'b'},
      {"cleartext_rdma", offsetof(verbena_options, cleartext_rdma), 'b'},
      {"unsigned_payload", offsetof(verbena_options, unsigned_payload), 'b'},
      {"unverified_checksums", offsetof(verbena_options, unverified_checksums), 'b'},
      {"connect_timeout_ms", offsetof(verbena_options, connect_timeout_ms), 'q'},
      {"operation_timeout_ms", offsetof(verbena_options, operation_timeout_ms), 'q'},
      {"attempts_max", offsetof(verbena_options, attempts_max), 'u'},
      {"connections_max", offsetof(verbena_options, connections_max), 'u'},
      {"async_threads", offsetof(verbena_options, async_threads), 'u'},
      {"parts_in_flight", offsetof(verbena_options, parts_in_flight), 'u'},
      {"multipart_threshold", offsetof(verbena_options, multipart_threshold), 'q'},
      {"part_size", offsetof(verbena_options, part_size), 'q'},
      {"token_size_min", offsetof(verbena_options, token_size_min), 'q'}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, known[i].name) != 0) continue;
    void* field = (char*)options + known[i].offset;
    if (value == Py_None) return true;
    if (known[i].kind == 's') return optional_text(value, known[i].name, field);
    if (known[i].kind == 'b') {
      *(int*)field = PyObject_IsTrue(value);
      return *(int*)field >= 0;
    }
    const unsigned long long number = PyLong_AsUnsignedLongLong(value);
    if (number == (unsigned long long)-1 && PyErr_Occurred()) return false;
    if (known[i].kind == 'q') *(uint64_t*)field = number;
    if (known[i].kind == 'u') *(unsigned*)field = number > 1000000 ? 1000000 : (unsigned)number;
    return true;
  }
  PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R", name);
  return false;
}

static int client_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  Client* client = (Client*)self;
  if (PyTuple_Size(arguments) != 0 || client->client != NULL) {
    PyErr_SetString(PyExc_TypeError, "options are given by keyword, once");
    return -1;
  }
  verbena_options options = {.struct_size = sizeof options};
  PyObject *name = NULL, *value = NULL;
  for (Py_ssize_t at = 0; keywords != NULL && PyDict_Next(keywords, &at, &name, &value);) {
    if (!set_option(&options, name, value)) return -1;
  }
  int code = client->cancellation != NULL ? VERBENA_OK : verbena_cancellation_new(&client->cancellation);
  verbena_client* made = NULL;
  if (code == VERBENA_OK) {
    Py_BEGIN_ALLOW_THREADS
    code = verbena_connect(&options, &made);
    Py_END_ALLOW_THREADS
  }
  if (code != VERBENA_OK) {
    raise_last(code);
    return -1;
  }
  client->client = made;
  return 0;
}

// Calls in progress end soon, and the last of them closes the connection.
static PyObject* client_close(PyObject* self, PyObject* unused) {
  (void)unused;
  Client* client = (Client*)self;
  verbena_client* last = client->client;
  if (last == NULL) Py_RETURN_NONE;
  client->client = NULL;
  if (client->users == 0) {
    end_client(client, last);
  } else {
    client->leaving = last;
    verbena_cancel(client->cancellation);
  }
  Py_RETURN_NONE;
}

static void client_dealloc(PyObject* self) {
  Py_XDECREF(client_close(self, NULL));
  verbena_cancellation_free(((Client*)self)->cancellation);
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyObject* get_closed(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((Client*)self)->client == NULL);
}

// ---- Objects ----

bool names_of(PyObject* const* values, Py_ssize_t nargs, Py_ssize_t wanted, const char* usage, const char** bucket, const char** key) {
  if (nargs != wanted) {
    PyErr_SetString(PyExc_TypeError, usage);
    return false;
  }
  *bucket = text_of(values[0], "bucket");
  *key = *bucket == NULL ? NULL : text_of(values[1], "key");
  return *key != NULL;
}

// Runs with the memory acquired and the client in use.
static int move_in(Client* client, verbena_client* used, const char* bucket, const char* key, const Memory* into,
                   Request* request, Reply* reply) {
  int code = 0;
  request->get.cancellation = client->cancellation;
  Py_BEGIN_ALLOW_THREADS
  if (into->window != NULL) {
    code = verbena_get(used, bucket, key, into->window, 0, into->size, &request->get, &reply->bytes, &reply->object,
                       &reply->transfer);
  } else {
    code = verbena_get_bytes(used, bucket, key, into->data, into->size, &request->get, &reply->bytes, &reply->object,
                             &reply->transfer);
  }
  Py_END_ALLOW_THREADS
  reply->info = request->info;
  request->info = NULL;
  return code;
}

static PyObject* client_get_into(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  if (!names_of(values, nargs, 3, "get_into(bucket, key, into, *, ...)", &bucket, &key)) return NULL;
  Request request;
  Memory memory;
  Reply* reply = NULL;
  bool ok = parse_get(&request, values, nargs, names);
  verbena_client* used = ok ? begin_use((Client*)self) : NULL;
  if (used != NULL) {
    if (open_window(&memory, used, values[2], true)) {
      if (memory.window == NULL) reply = get_pieces((Client*)self, used, bucket, key, &request, memory.data, memory.size);
      const bool done = reply != NULL || PyErr_Occurred() || (reply = new_reply()) == NULL;
      const int code = done ? 0 : move_in((Client*)self, used, bucket, key, &memory, &request, reply);
      if (code != VERBENA_OK) {
        raise_last(code);
        Py_CLEAR(reply);
      }
      close_memory(&memory);
    }
    end_use((Client*)self, used);
  }
  free_request(&request);
  return (PyObject*)reply;
}

// The number of bytes to make room for: of the ranges, or of the object now.
static bool room_for(Client* client, verbena_client* used, const char* bucket, const char* key, const Request* request,
                     uint64_t* room) {
  *room = 0;
  bool known = request->get.range_count != 0;
  for (size_t i = 0; i < request->get.range_count; ++i) {
    known = known && request->ranges[i].length != 0;
    if (__builtin_add_overflow(*room, request->ranges[i].length, room)) known = false;
  }
  if (known && *room <= (64u << 20) && (request->size_max == 0 || *room <= request->size_max)) return true;
  verbena_head_options head = {.struct_size = sizeof head};
  head.version_id = request->get.version_id;
  head.cancellation = client->cancellation;
  verbena_object object = {.struct_size = sizeof object};
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_head(used, bucket, key, &head, &object);
  Py_END_ALLOW_THREADS
  if (code != VERBENA_OK) {
    raise_last(code);
    return false;
  }
  *room = object.size;
  if (request->get.range_count != 0) {
    *room = 0;
    for (size_t i = 0; i < request->get.range_count; ++i) {
      const uint64_t offset = request->ranges[i].offset, length = request->ranges[i].length;
      const uint64_t left = offset < object.size ? object.size - offset : 0;
      *room += length == 0 || length > left ? left : length;
    }
  }
  return within_bound(request, *room);
}

static Buffer* get_once(Client* client, verbena_client* used, const char* bucket, const char* key, Request* request,
                        uint64_t room, int* code) {
  Buffer* buffer = new_buffer(client, (size_t)(room > 0 ? room : 1));
  Reply* reply = buffer == NULL ? NULL : new_reply();
  if (reply == NULL) {
    Py_XDECREF((PyObject*)buffer);
    *code = -1;
    return NULL;
  }
  Memory memory = {.buffer = buffer, .window = buffer->buffer, .data = verbena_buffer_data(buffer->buffer), .size = (size_t)room};
  if (room > 0) {
    *code = move_in(client, used, bucket, key, &memory, request, reply);
  } else {  // an empty object: it may have grown by now
    memory.size = 1;
    *code = move_in(client, used, bucket, key, &memory, request, reply);
  }
  if (*code != VERBENA_OK) {
    Py_DECREF((PyObject*)reply);
    Py_DECREF((PyObject*)buffer);
    return NULL;
  }
  buffer->size = (size_t)reply->bytes;
  buffer->reply = (PyObject*)reply;
  return buffer;
}

Buffer* get_buffer(Client* client, verbena_client* used, const char* bucket, const char* key, Request* request) {
  for (int attempt = 0;; ++attempt) {
    uint64_t room = 0;
    int code = 0;
    if (!room_for(client, used, bucket, key, request, &room)) return NULL;
    Buffer* buffer = get_once(client, used, bucket, key, request, room, &code);
    if (buffer != NULL || code < 0) return buffer;
    if (code != VERBENA_BUFFER_TOO_SMALL || attempt == 8) {  // the object may have grown in between
      raise_last(code);
      return NULL;
    }
  }
}

static PyObject* client_get(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  if (!names_of(values, nargs, 2, "get(bucket, key, *, ...)", &bucket, &key)) return NULL;
  Client* client = (Client*)self;
  Request request;
  Buffer* buffer = NULL;
  verbena_client* used = parse_get(&request, values, nargs, names) ? begin_use(client) : NULL;
  if (used != NULL) {
    buffer = get_buffer(client, used, bucket, key, &request);
    end_use(client, used);
  }
  free_request(&request);
  return (PyObject*)buffer;
}

static PyObject* client_put(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  if (!names_of(values, nargs, 3, "put(bucket, key, data, *, ...)", &bucket, &key)) return NULL;
  Client* client = (Client*)self;
  Request request;
  Memory memory;
  Reply* reply = NULL;
  verbena_client* used = parse_put(&request, values, nargs, names) ? begin_use(client) : NULL;
  if (used != NULL) {
    if (open_window(&memory, used, values[2], false)) {
      reply = new_reply();
      int code = 0;
      request.put.cancellation = client->cancellation;
      if (reply != NULL) {
        Py_BEGIN_ALLOW_THREADS
        if (memory.window != NULL) {
          code = verbena_put(used, bucket, key, memory.window, 0, memory.size, &request.put, &reply->object,
                             &reply->transfer);
        } else {
          code = verbena_put_bytes(used, bucket, key, memory.data, memory.size, &request.put, &reply->object,
                                   &reply->transfer);
        }
        Py_END_ALLOW_THREADS
        reply->info = request.info;
        request.info = NULL;
      }
      reply = end_store(reply, code, &memory);
    }
    end_use(client, used);
  }
  free_request(&request);
  return (PyObject*)reply;
}

// A caller's reader, and what it has raised.
typedef struct {
  PyObject* read;
  PyObject *type, *value, *traceback;
} Reader;

static int64_t read_from(void* context, void* into, size_t size) {
  Reader* reader = context;
  PyGILState_STATE state = PyGILState_Ensure();
  int64_t filled = 0;
  while ((size_t)filled < size) {
    PyObject* piece = PyObject_CallFunction(reader->read, "n", (Py_ssize_t)(size - (size_t)filled));
    Py_buffer view;
    if (piece == NULL || PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE) < 0) {
      Py_XDECREF(piece);
      Py_XDECREF(reader->type);
      Py_XDECREF(reader->value);
      Py_XDECREF(reader->traceback);
      PyErr_Fetch(&reader->type, &reader->value, &reader->traceback);
      filled = -1;
      break;
    }
    const size_t n = (size_t)view.len;
    if (n <= size - (size_t)filled) memcpy((char*)into + filled, view.buf, n);
    PyBuffer_Release(&view);
    Py_DECREF(piece);
    if (n > size - (size_t)filled) {
      filled = -1;
      break;
    }
    if (n == 0) break;
    filled += (int64_t)n;
  }
  PyGILState_Release(state);
  return filled;
}

static PyObject* client_put_stream(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  if (!names_of(values, nargs, 3, "put_stream(bucket, key, read, *, ...)", &bucket, &key)) return NULL;
  if (!PyCallable_Check(values[2])) {
    PyErr_SetString(PyExc_TypeError, "read must be callable: read(size) -> bytes");
    return NULL;
  }
  Client* client = (Client*)self;
  Request request;
  Reply* reply = NULL;
  verbena_client* used = parse_put(&request, values, nargs, names) ? begin_use(client) : NULL;
  if (used != NULL && (reply = new_reply()) != NULL) {
    int code = 0;
    Reader reader = {.read = values[2]};
    request.put.cancellation = client->cancellation;
    Py_BEGIN_ALLOW_THREADS
    code = verbena_put_stream(used, bucket, key, read_from, &reader, &request.put, &reply->object, &reply->transfer);
    Py_END_ALLOW_THREADS
    reply->bytes = reply->transfer.bytes;
    reply->info = request.info;
    request.info = NULL;
    if (reader.type != NULL) {
      PyErr_Restore(reader.type, reader.value, reader.traceback);
      Py_CLEAR(reply);
    } else if (code != VERBENA_OK) {
      raise_last(code);
      Py_CLEAR(reply);
    }
  }
  if (used != NULL) end_use(client, used);
  free_request(&request);
  return (PyObject*)reply;
}

static bool version_of(PyObject* const* values, Py_ssize_t nargs, PyObject* names, const char** version, const char** if_match) {
  const Py_ssize_t n = names == NULL ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* name = PyTuple_GetItem(names, i);
    const char** into = NULL;
    if (PyUnicode_CompareWithASCIIString(name, "version_id") == 0) into = version;
    if (if_match != NULL && PyUnicode_CompareWithASCIIString(name, "if_match") == 0) into = if_match;
    if (into == NULL) {
      PyErr_Format(PyExc_TypeError, "unexpected keyword argument %R", name);
      return false;
    }
    if (!optional_text(values[nargs + i], "a keyword", into)) return false;
  }
  return true;
}

static PyObject* client_head(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  verbena_head_options options = {.struct_size = sizeof options};
  if (!names_of(values, nargs, 2, "head(bucket, key, *, version_id)", &bucket, &key) ||
      !version_of(values, nargs, names, &options.version_id, NULL)) {
    return NULL;
  }
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  Reply* reply = new_reply();
  int code = 0;
  if (reply != NULL) {
    options.info = &reply->info;
    options.cancellation = ((Client*)self)->cancellation;
    Py_BEGIN_ALLOW_THREADS
    code = verbena_head(used, bucket, key, &options, &reply->object);
    Py_END_ALLOW_THREADS
  }
  if (code != VERBENA_OK) {
    raise_last(code);
    Py_CLEAR(reply);
  }
  end_use((Client*)self, used);
  return (PyObject*)reply;
}

// `None` for a call without a result.
static PyObject* finish(Client* client, verbena_client* used, int code) {
  if (code != VERBENA_OK) raise_last(code);
  end_use(client, used);
  if (code != VERBENA_OK) return NULL;
  Py_RETURN_NONE;
}

static PyObject* client_delete(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  verbena_delete_options options = {.struct_size = sizeof options};
  if (!names_of(values, nargs, 2, "delete(bucket, key, *, version_id, if_match)", &bucket, &key) ||
      !version_of(values, nargs, names, &options.version_id, &options.if_match)) {
    return NULL;
  }
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  options.cancellation = ((Client*)self)->cancellation;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_delete(used, bucket, key, &options);
  Py_END_ALLOW_THREADS
  return finish((Client*)self, used, code);
}

static PyObject* client_append(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "key", "data", "at", "content_type", NULL};
  const char *bucket = NULL, *key = NULL;
  PyObject *data = NULL, *at = NULL;
  verbena_put_options options = {.struct_size = sizeof options};
  uint64_t place = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "ssO|O$z:append", names, &bucket, &key, &data, &at, &options.content_type) ||
      !append_place(at, &place)) {
    return NULL;
  }
  Client* client = (Client*)self;
  Memory memory;
  Reply* reply = NULL;
  verbena_client* used = begin_use(client);
  if (used == NULL) return NULL;
  if (open_memory(&memory, data, false)) {
    reply = new_reply();
    int code = 0;
    options.cancellation = client->cancellation;
    if (reply != NULL) {
      Py_BEGIN_ALLOW_THREADS
      code = verbena_append(used, bucket, key, memory.data, memory.size, place, &options, &reply->object, &reply->transfer);
      Py_END_ALLOW_THREADS
    }
    reply = end_store(reply, code, &memory);
  }
  end_use(client, used);
  return (PyObject*)reply;
}

static PyObject* client_rename(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "source", "target", "source_if_match", "if_match", "if_none_match", "token", NULL};
  const char *bucket = NULL, *from = NULL, *to = NULL;
  verbena_rename_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sss|$zzzz:rename", names, &bucket, &from, &to, &options.source_if_match,
                                   &options.if_match, &options.if_none_match, &options.token)) {
    return NULL;
  }
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  options.cancellation = ((Client*)self)->cancellation;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_rename(used, bucket, from, to, &options);
  Py_END_ALLOW_THREADS
  return finish((Client*)self, used, code);
}

static PyObject* client_make_bucket(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "memory", NULL};
  const char* bucket = NULL;
  verbena_bucket_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|p:make_bucket", names, &bucket, &options.memory)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_make_bucket(used, bucket, &options);
  Py_END_ALLOW_THREADS
  return finish((Client*)self, used, code);
}

static PyObject* client_remove_bucket(PyObject* self, PyObject* arguments) {
  const char* bucket = NULL;
  if (!PyArg_ParseTuple(arguments, "s:remove_bucket", &bucket)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_remove_bucket(used, bucket);
  Py_END_ALLOW_THREADS
  return finish((Client*)self, used, code);
}

// ---- Listings ----

static PyObject* text_or_bytes(const char* text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape"); }

PyObject* page_as_tuple(const verbena_page* page) {
  const size_t count = verbena_page_count(page), prefixes = verbena_page_prefix_count(page);
  PyObject *objects = PyList_New((Py_ssize_t)count), *levels = PyList_New((Py_ssize_t)prefixes);
  bool ok = objects != NULL && levels != NULL;
  for (size_t i = 0; ok && i < count; ++i) {
    verbena_object object = {.struct_size = sizeof object};
    const char* key = verbena_page_object(page, i, &object);
    PyObject* name = text_or_bytes(key);
    PyObject* entry = name == NULL ? NULL : Py_BuildValue("(NKLs)", name, (unsigned long long)object.size,
                                                          (long long)object.modified_us, object.etag);
    ok = entry != NULL && PyList_SetItem(objects, (Py_ssize_t)i, entry) == 0;
  }
  for (size_t i = 0; ok && i < prefixes; ++i) {
    PyObject* prefix = text_or_bytes(verbena_page_prefix(page, i));
    ok = prefix != NULL && PyList_SetItem(levels, (Py_ssize_t)i, prefix) == 0;
  }
  if (ok) return Py_BuildValue("(NNz)", objects, levels, verbena_page_continuation(page));
  Py_XDECREF(objects);
  Py_XDECREF(levels);
  return NULL;
}

static PyObject* client_list_page(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "prefix", "delimiter", "after", "continuation", "max_keys", NULL};
  const char* bucket = NULL;
  verbena_list_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|zzzzI:list_page", names, &bucket, &options.prefix,
                                   &options.delimiter, &options.after, &options.continuation, &options.max_keys)) {
    return NULL;
  }
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  options.cancellation = ((Client*)self)->cancellation;
  verbena_page* page = NULL;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_list_page(used, bucket, &options, &page);
  Py_END_ALLOW_THREADS
  PyObject* answer = code != VERBENA_OK ? raise_last(code) : page_as_tuple(page);
  verbena_page_free(page);
  end_use((Client*)self, used);
  return answer;
}

static PyObject* client_buckets(PyObject* self, PyObject* unused) {
  (void)unused;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  verbena_page* page = NULL;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_buckets(used, &page);
  Py_END_ALLOW_THREADS
  PyObject* answer = code != VERBENA_OK ? raise_last(code) : page_as_tuple(page);
  verbena_page_free(page);
  end_use((Client*)self, used);
  return answer;
}

// ---- Memory ----

static PyObject* client_allocate(PyObject* self, PyObject* arguments) {
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(arguments, "n:allocate", &size)) return NULL;
  if (size <= 0) {
    PyErr_SetString(PyExc_ValueError, "a buffer has at least one byte");
    return NULL;
  }
  Buffer* buffer = new_buffer((Client*)self, (size_t)size);
  if (buffer != NULL) memset(verbena_buffer_data(buffer->buffer), 0, (size_t)size);
  return (PyObject*)buffer;
}

static PyObject* client_register(PyObject* self, PyObject* object) {
  Client* client = (Client*)self;
  if (on_device(object)) {
    verbena_client* with = begin_use(client);
    Buffer* made = with == NULL ? NULL : register_device(client, with, object);
    if (with != NULL) end_use(client, with);
    return (PyObject*)made;
  }
  Buffer* buffer = (Buffer*)PyType_GenericAlloc(buffer_type, 0);
  if (buffer == NULL) return NULL;
  Py_INCREF((PyObject*)client);
  buffer->owner = client;
  PyObject* array = NULL;
  if (!PyObject_CheckBuffer(object) && PyObject_HasAttrString(object, "numpy")) {
    array = PyObject_CallMethod(object, "numpy", NULL);  // a torch tensor: shares its memory
  } else {
    Py_INCREF(object);
    array = object;
  }
  const bool viewed = array != NULL && (PyObject_GetBuffer(array, &buffer->view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0 ||
                                        (PyErr_Clear(), PyObject_GetBuffer(array, &buffer->view, PyBUF_C_CONTIGUOUS) == 0));
  Py_XDECREF(array);
  verbena_client* used = viewed ? begin_use(client) : NULL;
  if (used == NULL) {
    if (viewed) PyBuffer_Release(&buffer->view);
    Py_DECREF((PyObject*)buffer);
    return NULL;
  }
  verbena_memory memory = {.struct_size = sizeof memory, .address = buffer->view.buf, .size = (size_t)buffer->view.len};
  const int code = verbena_buffer_register(used, &memory, &buffer->buffer);
  end_use(client, used);
  if (code != VERBENA_OK) {
    PyBuffer_Release(&buffer->view);
    Py_DECREF((PyObject*)buffer);
    return raise_last(code);
  }
  buffer->registered = true;
  buffer->size = memory.size;
  return (PyObject*)buffer;
}

static PyObject* client_preferred(PyObject* self, PyObject* arguments) {
  unsigned long long size = 1 << 20;
  if (!PyArg_ParseTuple(arguments, "|K:preferred", &size)) return NULL;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  PyObject* answer = PyUnicode_FromString(verbena_preferred(used, size));
  end_use((Client*)self, used);
  return answer;
}

static PyObject* client_device_counters(PyObject* self, PyObject* unused) {
  (void)unused;
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  verbena_device_counters now = {.struct_size = sizeof now};
  const int code = verbena_count_device(used, &now);
  end_use((Client*)self, used);
  if (code != VERBENA_OK) return raise_last(code);
  const struct { const char* name; uint64_t value; } all[] = {
      {"staged", now.staged}, {"staged_bytes", now.staged_bytes}, {"shared", now.shared}, {"shared_bytes", now.shared_bytes},
      {"direct", now.direct}, {"direct_bytes", now.direct_bytes}, {"peer", now.peer}, {"peer_bytes", now.peer_bytes},
      {"not_direct", now.not_direct}, {"not_peer", now.not_peer}, {"other_door", now.other_door},
      {"direct_failed", now.direct_failed}, {"peer_failed", now.peer_failed}, {"failed", now.failed},
      {"verified_kernel", now.verified_kernel}, {"verified_read_back", now.verified_read_back},
      {"no_checksum", now.no_checksum}, {"mismatches", now.mismatches}, {"read_back_bytes", now.read_back_bytes}};
  PyObject* made = PyDict_New();
  for (size_t i = 0; made != NULL && i < sizeof all / sizeof *all; ++i) {
    PyObject* value = PyLong_FromUnsignedLongLong(all[i].value);
    if (value == NULL || PyDict_SetItemString(made, all[i].name, value) < 0) Py_CLEAR(made);
    Py_XDECREF(value);
  }
  return made;
}

#define FAST(name, function, doc) {name, (PyCFunction)(void*)function, METH_FASTCALL | METH_KEYWORDS, doc}
#define KEYWORDS(name, function, doc) {name, (PyCFunction)(void*)function, METH_VARARGS | METH_KEYWORDS, doc}
static PyMethodDef client_methods[] = {
    FAST("get_into", client_get_into,
         "get_into(bucket, key, into, *, range=None, ranges=None, if_match=None, if_none_match=None, version_id=None,\n"
         "         metadata=False, verify_device=False) -> Reply\n\n"
         "The object's bytes into `into`: a Buffer, or anything with a writable, contiguous buffer (numpy arrays,\n"
         "bytearrays, mmaps), or an array of a GPU (__cuda_array_interface__, DLPack). BufferTooSmall when they do not\n"
         "fit."),
    FAST("get", client_get,
         "get(bucket, key, *, range=None, ranges=None, if_match=None, if_none_match=None, version_id=None, metadata=False)\n"
         "    -> Buffer\n\nThe object's bytes in memory of the client's. Its `reply` says what else is known."),
    FAST("get_bytes", client_get_bytes,
         "get_bytes(bucket, key, *, ...) -> (bytes, Reply)\n\nAs get, for those who need `bytes`."),
    FAST("batch", client_batch,
         "batch(kind, items, memory, progress=None, lease=0, ttl=0, lease_ms=0, joins=0, verify_device=False) -> Results\n\n"
         "What get_many (kind 0), put_many (1), head_many (2), remove_many (3) and put_many if absent (4) are made\n"
         "of: at most 4096 items."),
    FAST("batch_of_blocks", client_batch_of_blocks,
         "batch_of_blocks(kind, bucket, prefix, hashes, memory, size, offsets, layers, first, count, progress, lease, ttl)\n"
         "    -> Results\n\nAs batch, of blocks named by hashes behind a prefix: what verbena.kv moves blocks by."),
    {"end_lease", client_end_lease, METH_VARARGS, "end_lease(lease)\n\nEnds a lease of a match before its time."},
    {"match_hashes", client_match_hashes, METH_VARARGS,
     "match_hashes(bucket, namespace, hashes, width, counts, sizes, places, lease_ms, join=0)\n"
     "    -> (leading, codes, sizes or None, places or None, lease)\n\nWhat match and match_lists are made of."},
    KEYWORDS("put_part", client_put_part,
             "put_part(bucket, key, upload_id, number, data, *, checksum=None, md5_etag=False, describe=False) -> Reply\n\n"
             "A part of an upload that another client of S3 began: by token where that works, else over HTTP."),
    FAST("put", client_put,
         "put(bucket, key, data, *, content_type=None, metadata=None, if_match=None, if_none_match=None, checksum=None,\n"
         "    md5_etag=False, ttl=None, headers=None, describe=False, verify_device=False) -> Reply\n\nStores a Buffer, or what any contiguous buffer or DLPack tensor in host memory holds.\n"
         "`headers`: of 'cache-control', 'content-disposition', 'content-encoding', 'content-language' and 'expires'.\n"
         "With `describe` the reply's headers are what the server says of the new object: its encryption, when it expires."),
    FAST("put_stream", client_put_stream,
         "put_stream(bucket, key, read, *, ...) -> Reply\n\nStores what read(size) gives until it gives nothing, in bounded memory."),
    KEYWORDS("append", client_append,
             "append(bucket, key, data, at=None, *, content_type=None) -> Reply\n\n"
             "Adds to the end of an object in a directory bucket, which must be `at` bytes long where that is given; its `size` is\n"
             "then that of the whole. Makes the object where there is none."),
    KEYWORDS("rename", client_rename,
             "rename(bucket, source, target, *, source_if_match=None, if_match=None, if_none_match=None, token=None)\n\n"
             "Gives an object of a directory bucket another name, at once. What was there goes."),
    FAST("head", client_head, "head(bucket, key, *, version_id=None) -> Reply"),
    FAST("delete", client_delete,
         "delete(bucket, key, *, version_id=None, if_match=None)\n\nSucceeds for a key that does not exist, as S3 does."),
    KEYWORDS("list_page", client_list_page,
             "list_page(bucket, prefix=None, delimiter=None, after=None, continuation=None, max_keys=1000)\n\n"
             "([(key, size, modified_us, etag), ...], [common prefix, ...], continuation or None)"),
    KEYWORDS("watch_begin", client_watch_begin, "watch_begin(bucket, prefix=None) -> Watch"),
    {"buckets_page", client_buckets, METH_NOARGS, "As list_page, of buckets' names."},
    KEYWORDS("make_bucket", client_make_bucket,
             "make_bucket(bucket, memory=False)\n\nmemory: PUTs are acknowledged from memory and written behind (scratch data)."),
    {"remove_bucket", client_remove_bucket, METH_VARARGS, "remove_bucket(bucket)"},
    KEYWORDS("set_bound", client_set_bound,
             "set_bound(bucket, *, bytes_max=None, objects_max=None, policy='s3-fifo', renew_on_read=False,\n"
             "keep_suffix='/namespace.json')\n\n"
             "A bounded bucket evicts objects instead of refusing writes. Replaces the bound before. policy: 's3-fifo', 'lru' or\n"
             "'ttl'. renew_on_read: a read starts the TTL of its object again. keep_suffix: a few\n"
             "objects whose keys end with it are not evicted; '': none."),
    {"bound", client_bound, METH_VARARGS, "bound(bucket) -> dict or None\n\nThe bound, by the names of set_bound's arguments; 0: no limit."},
    {"remove_bound", client_remove_bound, METH_VARARGS, "remove_bound(bucket)"},
    {"allocate", client_allocate, METH_VARARGS, "allocate(size) -> Buffer\n\nMemory that is cheapest to transfer, zeroed."},
    {"register", client_register, METH_O,
     "register(array) -> Buffer\n\nThe array's own memory as a Buffer, for transfers again and again. It stays in use until release().\n"
     "Of an array of a GPU: a handle for calls, whose bytes only the array shows."},
    {"preferred", client_preferred, METH_VARARGS, "preferred(size=1048576) -> str\n\nThe door that a transfer would try first now."},
    {"device_counters", client_device_counters, METH_NOARGS,
     "device_counters() -> dict\n\nTransfers to and from GPUs since the client was made, by their way, and what was not used (docs/gpu.md)."},
    {"close", client_close, METH_NOARGS, "Ends the connections. Calls of other threads end with Cancelled."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef client_attributes[] = {{"closed", get_closed, NULL, "Whether close() was called.", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_client_type(void) {
  static PyType_Slot slots[] = {{Py_tp_new, PyType_GenericNew},
                                {Py_tp_init, client_init},
                                {Py_tp_dealloc, client_dealloc},
                                {Py_tp_methods, client_methods},
                                {Py_tp_getset, client_attributes},
                                {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return (PyTypeObject*)PyType_FromSpec(&spec);
}
