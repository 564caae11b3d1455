// Large objects into memory other than a Buffer. A server on the same host copies into shared memory, and the client
// has to copy from there. One after the other, both copies would go through main memory. So the object is fetched in
// pieces into a few buffers that stay in the CPU's caches, and a thread copies one while the next arrives.
#include <pthread.h>

#include "native.h"

enum { piece_size = 2 << 20, lanes = 3 };
static const size_t worth_it = (size_t)4 << 20;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  verbena_buffer* lane[lanes];
  char* into;
  size_t size;
  size_t arrived, copied;  // pieces
  bool ended;
} Pieces;

static size_t size_of(const Pieces* pieces, size_t piece) {
  const size_t left = pieces->size - piece * piece_size;
  return left < piece_size ? left : piece_size;
}

static void* copy_pieces(void* given) {
  Pieces* pieces = given;
  pthread_mutex_lock(&pieces->lock);
  for (;;) {
    while (pieces->copied == pieces->arrived && !pieces->ended) pthread_cond_wait(&pieces->changed, &pieces->lock);
    if (pieces->copied == pieces->arrived) break;
    const size_t piece = pieces->copied;
    pthread_mutex_unlock(&pieces->lock);
    memcpy(pieces->into + piece * piece_size, verbena_buffer_data(pieces->lane[piece % lanes]), size_of(pieces, piece));
    pthread_mutex_lock(&pieces->lock);
    ++pieces->copied;
    pthread_cond_signal(&pieces->changed);
  }
  pthread_mutex_unlock(&pieces->lock);
  return NULL;
}

// Waits until that piece's lane is free.
static void wait_for_lane(Pieces* pieces, size_t piece) {
  pthread_mutex_lock(&pieces->lock);
  while (piece >= pieces->copied + lanes) pthread_cond_wait(&pieces->changed, &pieces->lock);
  pthread_mutex_unlock(&pieces->lock);
}

static void tell(Pieces* pieces, size_t arrived, bool ended) {
  pthread_mutex_lock(&pieces->lock);
  pieces->arrived += arrived;
  pieces->ended = ended;
  pthread_cond_signal(&pieces->changed);
  pthread_mutex_unlock(&pieces->lock);
}

// All of one version: each piece must have the object's ETag.
static int fetch(Pieces* pieces, verbena_client* used, const char* bucket, const char* key, uint64_t begin,
                 verbena_cancellation* cancellation, Reply* reply) {
  int code = VERBENA_OK;
  const size_t count = (pieces->size + piece_size - 1) / piece_size;
  for (size_t piece = 0; piece < count && code == VERBENA_OK; ++piece) {
    wait_for_lane(pieces, piece);
    const size_t size = size_of(pieces, piece);
    const verbena_range range = {begin + piece * piece_size, size};
    verbena_get_options options = {.struct_size = sizeof options, .if_match = reply->object.etag, .ranges = &range, .range_count = 1,
                                   .cancellation = cancellation};
    uint64_t bytes = 0;
    code = verbena_get(used, bucket, key, pieces->lane[piece % lanes], 0, size, &options, &bytes, NULL, &reply->transfer);
    if (code == VERBENA_OK && bytes != size) code = VERBENA_PRECONDITION_FAILED;
    // Between hosts a whole object is verified by its checksum, which pieces do not have.
    if (code == VERBENA_OK && strcmp(reply->transfer.provider, "local") != 0) code = VERBENA_UNSUPPORTED;
    if (code == VERBENA_OK) tell(pieces, 1, false);
  }
  tell(pieces, 0, true);
  return code;
}

static int run(Pieces* pieces, verbena_client* used, const char* bucket, const char* key, uint64_t begin,
               verbena_cancellation* cancellation, Reply* reply) {
  int code = VERBENA_OK;
  for (size_t i = 0; i < lanes && code == VERBENA_OK; ++i) {
    if (pieces->lane[i] == NULL) code = verbena_buffer_alloc(used, piece_size, &pieces->lane[i]);
  }
  pthread_t copier;
  if (code != VERBENA_OK || pthread_create(&copier, NULL, copy_pieces, pieces) != 0) return VERBENA_UNSUPPORTED;
  code = fetch(pieces, used, bucket, key, begin, cancellation, reply);
  pthread_join(copier, NULL);
  return code;
}

// The whole object, or one range of it; without conditions.
static bool in_pieces(const Client* client, const Request* request) {
  return !client->far && request->get.range_count <= 1 && request->get.if_match == NULL && request->get.if_none_match == NULL &&
         request->get.version_id == NULL;
}

static void part_of(const Request* request, uint64_t whole, uint64_t* begin, uint64_t* size) {
  *begin = request->get.range_count == 0 ? 0 : request->ranges[0].offset;
  *size = *begin < whole ? whole - *begin : 0;
  const uint64_t length = request->get.range_count == 0 ? 0 : request->ranges[0].length;
  if (length != 0 && length < *size) *size = length;
}

// HEAD of the object, for in_pieces. NULL without an exception: not suitable for pieces, or no such object.
static Reply* look(Client* client, verbena_client* used, const char* bucket, const char* key, const Request* request) {
  Reply* reply = new_reply();
  if (reply == NULL) return NULL;
  verbena_head_options options = {.struct_size = sizeof options, .info = request->want_info ? &reply->info : NULL,
                                  .cancellation = client->cancellation};
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_head(used, bucket, key, &options, &reply->object);
  Py_END_ALLOW_THREADS
  if (code != VERBENA_OK || reply->object.etag[0] == 0) Py_CLEAR(reply);
  return reply;
}

static bool move_pieces(Client* client, verbena_client* used, const char* bucket, const char* key, uint64_t begin, void* into,
                        uint64_t size, Reply* reply) {
  Pieces pieces = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .into = into, .size = (size_t)size};
  for (size_t i = 0; i < lanes; ++i) pieces.lane[i] = pool_take(client, piece_size);
  int code;
  Py_BEGIN_ALLOW_THREADS
  code = run(&pieces, used, bucket, key, begin, client->cancellation, reply);
  Py_END_ALLOW_THREADS
  for (size_t i = 0; i < lanes; ++i) {
    if (pieces.lane[i] != NULL) pool_put(client, pieces.lane[i]);
  }
  pthread_mutex_destroy(&pieces.lock);
  pthread_cond_destroy(&pieces.changed);
  if (code == VERBENA_UNSUPPORTED) client->far = true;
  if (code == VERBENA_OK) reply->bytes = reply->transfer.bytes = size;
  return code == VERBENA_OK;
}

Reply* get_pieces(Client* client, verbena_client* used, const char* bucket, const char* key, const Request* request, void* into,
                  size_t room) {
  if (room < worth_it || !in_pieces(client, request)) return NULL;
  Reply* reply = look(client, used, bucket, key, request);
  if (reply == NULL) return NULL;
  uint64_t begin, size;
  part_of(request, reply->object.size, &begin, &size);
  if (size < worth_it || size > room || !move_pieces(client, used, bucket, key, begin, into, size, reply)) Py_CLEAR(reply);
  return reply;
}

// ---- get_bytes ----

static PyObject* in_large_bytes(Client* client, verbena_client* used, const char* bucket, const char* key, const Request* request) {
  if (!in_pieces(client, request)) return NULL;
  Reply* reply = look(client, used, bucket, key, request);
  if (reply == NULL) return NULL;
  uint64_t begin, size;
  part_of(request, reply->object.size, &begin, &size);
  PyObject* made = NULL;
  if (within_bound(request, size) && size >= worth_it && size <= PY_SSIZE_T_MAX / 2) made = new_large_bytes(client, (Py_ssize_t)size);
  if (made != NULL && move_pieces(client, used, bucket, key, begin, PyBytes_AsString(made), size, reply)) {
    remember_large_bytes(client, made);
    return Py_BuildValue("(NN)", made, (PyObject*)reply);
  }
  Py_XDECREF(made);
  Py_DECREF((PyObject*)reply);
  return NULL;
}

static PyObject* in_bytes(Client* client, verbena_client* used, const char* bucket, const char* key, Request* request) {
  Buffer* buffer = get_buffer(client, used, bucket, key, request);
  if (buffer == NULL) return NULL;
  PyObject* made = buffer_tobytes((PyObject*)buffer, NULL);
  PyObject* answer = made == NULL ? NULL : Py_BuildValue("(NO)", made, buffer->reply);
  Py_DECREF((PyObject*)buffer);
  return answer;
}

PyObject* client_get_bytes(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  const char *bucket, *key;
  if (!names_of(values, nargs, 2, "get_bytes(bucket, key, *, ...)", &bucket, &key)) return NULL;
  Client* client = (Client*)self;
  Request request;
  PyObject* answer = NULL;
  verbena_client* used = parse_get(&request, values, nargs, names) ? begin_use(client) : NULL;
  if (used != NULL) {
    answer = in_large_bytes(client, used, bucket, key, &request);
    if (answer == NULL && !PyErr_Occurred()) answer = in_bytes(client, used, bucket, key, &request);
    end_use(client, used);
  }
  free_request(&request);
  return answer;
}
