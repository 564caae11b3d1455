// The extension module verbena._native: clients, memory and queues over verbena.h. One file per type.
//
// Uses only the part of CPython's API that is stable since 3.11, so that one build serves every later release, and that
// exists in 3.9: for 3.9 and 3.10 it is compiled without the limited API. An object's state is accessed while the GIL
// is held; the GIL is released while bytes move.
#ifndef VERBENA_PYTHON_NATIVE_H
#define VERBENA_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "verbena/verbena.h"

enum { pool_slots = 64 };
static const size_t pool_bytes_max = (size_t)512 << 20;

// Reusable memory of a client, so that it is registered and faulted in once.
typedef struct {
  verbena_buffer* buffer[pool_slots];
  size_t count, bytes;
} Pool;

// Large bytes objects that were returned recently (large.c).
enum { large_slots = 8 };
typedef struct {
  PyObject* given[large_slots];
  size_t count, bytes;
} Large;

typedef struct {
  PyObject_HEAD verbena_client* client;  // NULL once closed
  verbena_client* leaving;               // closed during calls: the last of them ends it
  verbena_cancellation* cancellation;    // of all calls, used by close()
  size_t users;
  bool far;  // the server is on another host, or unknown: large objects are not fetched in pieces
  Pool pool;
  Large large;
} Client;

typedef struct {
  PyObject_HEAD verbena_buffer* buffer;  // NULL once released
  size_t size;                           // the visible size
  size_t exports;                        // buffer views that Python holds
  Client* owner;                         // takes the memory back
  PyObject* reply;                       // of the GET that filled it, or NULL
  bool registered;                       // memory owned by `view`, or by `device`
  Py_buffer view;
  PyObject* device;  // the array whose memory on a device this is; NULL: host memory
  bool device_read_only;
} Buffer;

// The result of a call. Attributes are created on access.
typedef struct {
  PyObject_HEAD uint64_t bytes;
  verbena_object object;
  verbena_transfer transfer;
  verbena_info* info;
  verbena_operation* operation;  // owner of the info; NULL: the reply owns it
} Reply;

extern PyTypeObject *client_type, *buffer_type, *reply_type, *queue_type, *operation_type, *progress_type;
PyTypeObject* make_client_type(void);
PyTypeObject* make_buffer_type(void);
PyTypeObject* make_reply_type(void);
PyTypeObject* make_watch_type(void);
PyTypeObject* make_queue_type(void);
PyTypeObject* make_operation_type(void);
// tp_new of types that only calls create.
PyObject* made_by_calls(PyTypeObject* type, PyObject* arguments, PyObject* keywords);

// ---- Errors (module.c) ----
// Raises the exception of verbena.errors for the failure of this thread's last call. Always returns NULL.
PyObject* raise_last(int code);
PyObject* raise_closed(void);
// Likewise an error that the library did not report.
PyObject* raise_error(int code, const char* message);
// The exception object, for a future.
PyObject* make_exception(void);

// ---- Arguments (arguments.c) ----
typedef struct {
  verbena_pair* pairs;
  PyObject* items;  // whose text the pairs are
} Pairs;
// Keyword options of a call, with the objects that they point into. Released with free_request.
typedef struct {
  verbena_get_options get;
  verbena_put_options put;
  uint64_t at;  // of an append
  verbena_range* ranges;
  Pairs metadata, headers;
  verbena_info* info;
  bool want_info;
  uint64_t size_max;  // of what a GET returns; 0: no bound
} Request;
bool parse_get(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
bool parse_put(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
bool parse_append(Request* request, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
// The offset of an append; None or NULL: the object's end.
bool append_place(PyObject* at, uint64_t* place);
// False, with TooLarge, of more bytes than the caller takes.
bool within_bound(const Request* request, uint64_t bytes);
void free_request(Request* request);
// UTF-8 of a str, which must not contain zero bytes; NULL with an exception.
const char* text_of(PyObject* value, const char* what);
// None or NULL gives NULL.
bool optional_text(PyObject* value, const char* what, const char** into);

// ---- Memory (buffer.c, memory.c) ----
// Where bytes go, or come from: a Buffer, an object with the buffer protocol, or a tensor that speaks DLPack.
typedef struct {
  Buffer* buffer;  // or
  void* data;
  size_t size;
  Py_buffer view;
  bool has_view;
  PyObject* capsule;           // or what else has to live
  verbena_buffer* window;      // of open_window: the memory as a buffer; NULL: plain host memory
  verbena_buffer* own_window;  // made for this call
} Memory;
bool open_memory(Memory* memory, PyObject* object, bool writable);
bool may_be_filled(const Buffer* buffer);  // false with BufferError: it is of memory that may only be read
void close_memory(Memory* memory);
// Of a Buffer in a device's memory.
bool open_device_buffer(Memory* memory, Buffer* buffer, bool writable);

// ---- Devices (device.c) ----
// As open_memory, but memory of a device is served, too, as a window of the client's.
bool open_window(Memory* memory, verbena_client* used, PyObject* object, bool writable);
bool on_device(PyObject* object);
Buffer* register_device(Client* client, verbena_client* used, PyObject* object);
// DLPack: the kind of the device that a tensor is on, a verbena_memory_kind (host: it is on none that is served); and
// its memory, of the kind that `memory` has, after its producer's work (memory.c).
int dlpack_kind(PyObject* object);
bool describe_dlpack(PyObject* object, verbena_device_memory* memory);
// The capsule of a tensor whose producer has made the default stream wait; NULL with an exception.
PyObject* dlpack_after_producer(PyObject* object, int kind);

// Memory of at least that size, from the pool if possible. The allocation itself releases the GIL.
Buffer* new_buffer(Client* client, size_t size);
PyObject* buffer_tobytes(PyObject* self, PyObject* unused);
PyObject* buffer_dlpack(PyObject* self, PyObject* arguments, PyObject* keywords);

// ---- Large bytes (large.c) ----
// An object to be filled: a new one, or one without further references.
PyObject* new_large_bytes(Client* client, Py_ssize_t size);
// The bytes are filled, and may be reused once no reference is left.
void remember_large_bytes(Client* client, PyObject* bytes);
void forget_large_bytes(Client* client);

// ---- Clients (client.c) ----
// Between the two calls the client stays open, even if another thread closes it. begin_use raises when it is closed.
verbena_client* begin_use(Client* client);
void end_use(Client* client, verbena_client* used);
void pool_put(Client* client, verbena_buffer* buffer);
verbena_buffer* pool_take(Client* client, size_t size);
size_t pool_class(size_t size);
// Bucket and key of a call with that many positional arguments.
bool names_of(PyObject* const* values, Py_ssize_t nargs, Py_ssize_t wanted, const char* usage, const char** bucket,
              const char** key);
// GET into pooled memory.
Buffer* get_buffer(Client* client, verbena_client* used, const char* bucket, const char* key, Request* request);

// One batch of get_many, put_many, head_many, remove_many (batch.c), or of blocks (blocks.c).
typedef struct Progress Progress;
typedef enum { batch_get, batch_put, batch_head, batch_remove, batch_put_absent } BatchKind;
typedef struct {
  BatchKind kind;
  Progress* progress;  // of a get; may be NULL
  uint64_t lease;      // that a get reads by; 0: none
  uint64_t ttl_s;      // of what a put stores; 0: no end
  verbena_lease take;  // that a get or head takes of what it finds; without milliseconds none
  int verify_device;
} Call;
typedef struct {
  PyObject_HEAD verbena_item_result* results;
  size_t count, failed;
  size_t shorter;  // get: without an error, and with fewer bytes than their place
  size_t present;  // put if absent: left as they were
  uint64_t lease;  // of what was found; 0: none
  char device_verified[16];  // of verify_device
} Results;
Results* new_results(size_t count);
bool read_call(PyObject* const* values, Py_ssize_t nargs, PyObject* names, Call* call);
// False with an exception. `memory` is of a get or put.
bool run_items(Client* client, const Call* call, const verbena_item* items, PyObject* memory, Results* results);
PyObject* client_batch_of_blocks(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
PyObject* client_batch(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
PyTypeObject* make_results_type(void);

// The arrival of a batch's items (progress.c). progress_in_order is verbena_batch::in_order; neither call needs the
// GIL.
void progress_in_order(void* context, size_t leading);
void progress_batch_ended(Progress* progress, size_t count);
PyTypeObject* make_progress_type(void);

// match.c
PyObject* client_match_hashes(PyObject* self, PyObject* arguments);
PyObject* client_end_lease(PyObject* self, PyObject* arguments);
PyObject* client_set_bound(PyObject* self, PyObject* arguments, PyObject* keywords);
PyObject* client_bound(PyObject* self, PyObject* arguments);
PyObject* client_remove_bound(PyObject* self, PyObject* arguments);

// pieces.c
PyObject* client_get_bytes(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names);
// GET into the caller's own memory. NULL: not applicable or failed; an ordinary GET then reports the error.
Reply* get_pieces(Client* client, verbena_client* used, const char* bucket, const char* key, const Request* request,
                  void* into, size_t room);

// part.c
PyObject* client_watch_begin(PyObject* self, PyObject* arguments, PyObject* keywords);  // watch.c
PyObject* client_put_part(PyObject* self, PyObject* arguments, PyObject* keywords);

Reply* new_reply(void);
// The result of a call that stored `memory`: the reply, or NULL with the exception set. Takes the reply, which may be
// NULL, and releases the memory.
Reply* end_store(Reply* reply, int code, Memory* memory);
// Objects, prefixes and continuation of a page as Python objects.
PyObject* page_as_tuple(const verbena_page* page);

#endif
