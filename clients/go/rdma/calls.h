// C helpers of the Go package: one crossing into C for each operation. Failures are returned with the call, since the
// library stores them per thread and a goroutine may continue on another one; they are large and rare, so an answer has
// a pointer to them, which failure() frees. Names are passed as one text with zero bytes between them, bytes as char*
// (see start() in client.go).
#include <stdlib.h>
#include <string.h>

#include "verbena/verbena.h"

typedef struct {
  verbena_error* error;
  verbena_object object;
  verbena_transfer transfer;
  uint64_t bytes;
} vb_answer;

static inline const char* vb_next(const char** names) {
  const char* text = *names;
  *names = text + strlen(text) + 1;
  return *text == 0 ? NULL : text;
}

static inline int vb_begin(vb_answer* answer) {
  answer->object.struct_size = sizeof answer->object;
  answer->transfer.struct_size = sizeof answer->transfer;
  return 0;
}

static inline int vb_end(vb_answer* answer, int code) {
  if (code == VERBENA_OK) return 0;
  answer->error = calloc(1, sizeof *answer->error);
  if (answer->error != NULL) {
    answer->error->struct_size = sizeof *answer->error;
    verbena_error_details(answer->error);
  }
  return code;
}

// names: endpoint, native endpoint, access key, secret key, session token, region, via, provider, CA file,
// encryption.
static inline int vb_connect(const char* names, int insecure, int cleartext, uint64_t timeout_ms, unsigned attempts,
                             verbena_client** client, vb_answer* answer) {
  verbena_options options = {.struct_size = sizeof options};
  options.endpoint = vb_next(&names);
  options.native_endpoint = vb_next(&names);
  options.access_key = vb_next(&names);
  options.secret_key = vb_next(&names);
  options.session_token = vb_next(&names);
  options.region = vb_next(&names);
  options.via = vb_next(&names);
  options.provider = vb_next(&names);
  options.ca_file = vb_next(&names);
  options.encryption = vb_next(&names);
  options.insecure = insecure;
  options.cleartext_rdma = cleartext;
  options.operation_timeout_ms = timeout_ms;
  options.attempts_max = attempts;
  return vb_end(answer, verbena_connect(&options, client));
}

// names: bucket, key, if-match, if-none-match, version. `buffer` or `into`.
static inline int vb_get(verbena_client* client, const char* names, verbena_buffer* buffer, char* into, size_t size, int ranged,
                         uint64_t offset, uint64_t length, int verify_device, verbena_info** info,
                         verbena_cancellation* cancellation, vb_answer* answer) {
  vb_begin(answer);
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  const verbena_range range = {offset, length};
  verbena_get_options options = {.struct_size = sizeof options};
  options.if_match = vb_next(&names);
  options.if_none_match = vb_next(&names);
  options.version_id = vb_next(&names);
  options.ranges = &range;
  options.range_count = ranged ? 1 : 0;
  options.verify_device = verify_device;
  options.info = info;
  options.cancellation = cancellation;
  const int code = buffer != NULL ? verbena_get(client, bucket, key, buffer, 0, size, &options, &answer->bytes, &answer->object,
                                                &answer->transfer)
                                  : verbena_get_bytes(client, bucket, key, into, size, &options, &answer->bytes,
                                                      &answer->object, &answer->transfer);
  return vb_end(answer, code);
}

static inline int vb_count_device(verbena_client* client, verbena_device_counters* counters, vb_answer* answer) {
  counters->struct_size = sizeof *counters;
  return vb_end(answer, verbena_count_device(client, counters));
}

// names: bucket, key, upload, checksum.
static inline int vb_put_part(verbena_client* client, const char* names, unsigned number, const char* from, size_t size,
                              verbena_info** info, verbena_cancellation* cancellation, vb_answer* answer) {
  vb_begin(answer);
  const char *bucket = vb_next(&names), *key = vb_next(&names), *upload = vb_next(&names);
  verbena_part_options options = {.struct_size = sizeof options};
  options.checksum = vb_next(&names);
  options.md5_etag = 1;
  options.info = info;
  options.cancellation = cancellation;
  return vb_end(answer, verbena_put_part(client, bucket, key, upload, number, from, size, &options, &answer->object, &answer->transfer));
}

int64_t verbenaGoRead(uintptr_t reader, void* into, size_t size);  // stream.go
static inline int64_t vb_read(void* context, void* into, size_t size) { return verbenaGoRead(*(uintptr_t*)context, into, size); }

static inline int vb_put_read(verbena_client* client, const char* bucket, const char* key, uintptr_t reader,
                              const verbena_put_options* options, vb_answer* answer) {
  return verbena_put_stream(client, bucket, key, vb_read, &reader, options, &answer->object, &answer->transfer);
}

// names: bucket, key, if-match, if-none-match, content type, checksum, then name and value of each piece of metadata.
// Reads from `reader` unless that is 0, else from `buffer` or `from`.
static inline int vb_put(verbena_client* client, const char* names, uintptr_t reader, verbena_buffer* buffer, const char* from,
                         size_t size, size_t pairs, int md5_etag, uint64_t ttl_s, int verify_device, verbena_info** info,
                         verbena_cancellation* cancellation, vb_answer* answer) {
  vb_begin(answer);
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  verbena_put_options options = {.struct_size = sizeof options};
  options.if_match = vb_next(&names);
  options.if_none_match = vb_next(&names);
  options.content_type = vb_next(&names);
  options.checksum = vb_next(&names);
  options.md5_etag = md5_etag;
  options.ttl_s = ttl_s;
  options.verify_device = verify_device;
  options.info = info;
  options.cancellation = cancellation;
  verbena_pair* metadata = pairs == 0 ? NULL : calloc(pairs, sizeof *metadata);
  if (metadata == NULL && pairs != 0) return VERBENA_LOCAL_ERROR;
  for (size_t i = 0; i < pairs; ++i) {
    metadata[i].name = names;
    vb_next(&names);
    metadata[i].value = names;
    vb_next(&names);
  }
  options.metadata = metadata;
  options.metadata_count = pairs;
  const int code =
      reader != 0      ? vb_put_read(client, bucket, key, reader, &options, answer)
      : buffer != NULL ? verbena_put(client, bucket, key, buffer, 0, size, &options, &answer->object, &answer->transfer)
                       : verbena_put_bytes(client, bucket, key, from, size, &options, &answer->object, &answer->transfer);
  const int ended = vb_end(answer, code);
  free(metadata);
  return ended;
}

// names: bucket, key, version.
static inline int vb_head(verbena_client* client, const char* names, verbena_info** info, verbena_cancellation* cancellation,
                          vb_answer* answer) {
  vb_begin(answer);
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  verbena_head_options options = {.struct_size = sizeof options};
  options.version_id = vb_next(&names);
  options.info = info;
  options.cancellation = cancellation;
  return vb_end(answer, verbena_head(client, bucket, key, &options, &answer->object));
}

// names: bucket, key, version, if-match.
static inline int vb_delete(verbena_client* client, const char* names, verbena_cancellation* cancellation, vb_answer* answer) {
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  verbena_delete_options options = {.struct_size = sizeof options};
  options.version_id = vb_next(&names);
  options.if_match = vb_next(&names);
  options.cancellation = cancellation;
  return vb_end(answer, verbena_delete(client, bucket, key, &options));
}

// names: bucket, key, content type.
static inline int vb_append(verbena_client* client, const char* names, const char* from, size_t size, uint64_t at,
                            verbena_cancellation* cancellation, vb_answer* answer) {
  vb_begin(answer);
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  verbena_put_options options = {.struct_size = sizeof options};
  options.content_type = vb_next(&names);
  options.cancellation = cancellation;
  return vb_end(answer, verbena_append(client, bucket, key, from, size, at, &options, &answer->object, &answer->transfer));
}

// The context of an asynchronous append: a copy of the bytes, and its Go handle.
typedef struct {
  uintptr_t handle;
  char bytes[];
} vb_appending;

// names: bucket, key.
static inline int vb_start_append(verbena_client* client, verbena_queue* queue, const char* names, const char* from, size_t size,
                                  uint64_t at, uintptr_t handle, verbena_operation** operation, vb_answer* answer) {
  const char *bucket = vb_next(&names), *key = vb_next(&names);
  vb_appending* made = malloc(sizeof *made + size);
  if (made == NULL) return VERBENA_LOCAL_ERROR;
  made->handle = handle;
  if (size > 0) memcpy(made->bytes, from, size);
  const int code = vb_end(answer, verbena_start_append(client, queue, bucket, key, made->bytes, size, at, NULL, made, operation));
  if (code != VERBENA_OK) free(made);
  return code;
}

// The next completed operation. A signal handler may interrupt the wait.
static inline verbena_operation* vb_next_done(verbena_queue* queue, uintptr_t* handle) {
  verbena_operation* done = NULL;
  while (done == NULL) verbena_queue_next(queue, -1, &done);
  *handle = ((vb_appending*)verbena_operation_context(done))->handle;
  return done;
}

static inline int vb_appended(verbena_operation* done, vb_answer* answer) {
  vb_begin(answer);
  const int code = vb_end(answer, verbena_operation_result(done, &answer->bytes, &answer->object, &answer->transfer));
  free(verbena_operation_context(done));
  verbena_operation_free(done);
  return code;
}

// names: bucket, from, to, source's if-match, if-match, if-none-match, token.
static inline int vb_rename(verbena_client* client, const char* names, verbena_cancellation* cancellation, vb_answer* answer) {
  const char *bucket = vb_next(&names), *from = vb_next(&names), *to = vb_next(&names);
  verbena_rename_options options = {.struct_size = sizeof options};
  options.source_if_match = vb_next(&names);
  options.if_match = vb_next(&names);
  options.if_none_match = vb_next(&names);
  options.token = vb_next(&names);
  options.cancellation = cancellation;
  return vb_end(answer, verbena_rename(client, bucket, from, to, &options));
}

// names: bucket, prefix, delimiter, after, continuation.
static inline int vb_list(verbena_client* client, const char* names, unsigned max_keys, verbena_page** page,
                          verbena_cancellation* cancellation, vb_answer* answer) {
  const char* bucket = vb_next(&names);
  verbena_list_options options = {.struct_size = sizeof options};
  options.prefix = vb_next(&names);
  options.delimiter = vb_next(&names);
  options.after = vb_next(&names);
  options.continuation = vb_next(&names);
  options.max_keys = max_keys;
  options.cancellation = cancellation;
  return vb_end(answer, verbena_list_page(client, bucket, &options, page));
}

// names: bucket, prefix.
static inline int vb_watch_begin(verbena_client* client, const char* names, verbena_watch** watch, verbena_cancellation* cancellation,
                                 vb_answer* answer) {
  const char* bucket = vb_next(&names);
  verbena_watch_options options = {.struct_size = sizeof options};
  options.prefix = vb_next(&names);
  options.cancellation = cancellation;
  return vb_end(answer, verbena_watch_begin(client, bucket, &options, watch));
}

static inline int vb_watch_next(verbena_watch* watch, const char** key, verbena_change* change, vb_answer* answer) {
  change->struct_size = sizeof *change;
  const int found = verbena_watch_next(watch, -1, key, change);
  return found < 0 ? -vb_end(answer, -found) : found;
}

static inline int vb_buckets(verbena_client* client, verbena_page** page, vb_answer* answer) {
  return vb_end(answer, verbena_buckets(client, page));
}

static inline int vb_make_bucket(verbena_client* client, const char* names, int memory, vb_answer* answer) {
  verbena_bucket_options options = {.struct_size = sizeof options, .memory = memory};
  return vb_end(answer, verbena_make_bucket(client, vb_next(&names), &options));
}

static inline int vb_remove_bucket(verbena_client* client, const char* names, vb_answer* answer) {
  return vb_end(answer, verbena_remove_bucket(client, vb_next(&names)));
}

// bound: NULL removes it.
static inline int vb_set_bound(verbena_client* client, const char* names, verbena_bound* bound, vb_answer* answer) {
  if (bound != NULL) bound->struct_size = sizeof *bound;
  return vb_end(answer, verbena_set_bound(client, vb_next(&names), bound));
}

static inline int vb_get_bound(verbena_client* client, const char* names, verbena_bound* bound, vb_answer* answer) {
  bound->struct_size = sizeof *bound;
  return vb_end(answer, verbena_get_bound(client, vb_next(&names), bound));
}

static inline int vb_alloc(verbena_client* client, size_t size, verbena_buffer** buffer, vb_answer* answer) {
  return vb_end(answer, verbena_buffer_alloc(client, size, buffer));
}

static inline int vb_register_device(verbena_client* client, verbena_device_memory* memory, verbena_buffer** buffer, vb_answer* answer) {
  memory->struct_size = sizeof *memory;
  return vb_end(answer, verbena_register_device(client, memory, buffer));
}

// The range of a batch item in the batch's memory, its part of the object, and when that ends.
typedef struct {
  size_t offset, size;
  uint64_t range_first, range_length, ttl_s;
} vb_place;

enum { vb_get_many, vb_put_many, vb_head_many, vb_delete_many };

static inline int vb_run_many(verbena_client* client, int kind, uint64_t lease, const verbena_batch* batch) {
  switch (kind) {
    case vb_get_many: return verbena_get_many_leased(client, batch, lease, NULL);
    case vb_put_many: return verbena_put_many(client, batch, NULL);
    case vb_head_many: return verbena_head_many(client, batch, NULL);
    default: return verbena_delete_many(client, batch, NULL);
  }
}

// names, of each item: bucket, key, version, if-match, if-none-match, content type. With `buffer`, or with `memory`, or with neither.
static inline int vb_many(verbena_client* client, int kind, uint64_t lease, const char* names, const vb_place* places, size_t count,
                          verbena_buffer* buffer, char* memory, size_t size, verbena_item_result* results, vb_answer* answer) {
  verbena_item* items = calloc(count, sizeof *items);
  if (items == NULL) return VERBENA_LOCAL_ERROR;
  for (size_t i = 0; i < count; ++i) {
    verbena_item* item = &items[i];
    item->struct_size = sizeof *item;
    item->bucket = vb_next(&names);
    item->key = vb_next(&names);
    item->version_id = vb_next(&names);
    item->if_match = vb_next(&names);
    item->if_none_match = vb_next(&names);
    item->content_type = vb_next(&names);
    item->offset = places[i].offset;
    item->size = places[i].size;
    item->range_first = places[i].range_first;
    item->range_length = places[i].range_length;
    item->ttl_s = places[i].ttl_s;
  }
  verbena_buffer* own = NULL;
  int code = VERBENA_OK;
  if (buffer == NULL && size != 0) {
    const verbena_memory given = {.struct_size = sizeof given, .address = memory, .size = size};
    code = verbena_buffer_register(client, &given, &own);
  }
  verbena_buffer* const window = buffer != NULL ? buffer : own;
  if (code == VERBENA_OK) {
    const verbena_batch batch = {.struct_size = sizeof batch, .items = items, .count = count, .windows = &window,
                                 .window_count = window == NULL ? 0 : 1, .results = results, .result_size = sizeof *results};
    code = vb_run_many(client, kind, lease, &batch);
  }
  const int ended = vb_end(answer, code);
  verbena_buffer_free(own);
  free(items);
  return ended;
}

// What a match found of its one list.
typedef struct {
  uint64_t lease;
  uint32_t leading;
  int code;
} vb_matched;

// names: bucket, namespace. `sizes` may be NULL.
static inline int vb_match(verbena_client* client, const char* names, const char* hashes, uint32_t count, size_t width, uint64_t lease_ms,
                           uint64_t join, uint64_t* sizes, vb_matched* matched, vb_answer* answer) {
  verbena_match_request request = {.struct_size = sizeof request, .hashes = hashes, .hashes_size = count * width, .width = width,
                                   .counts = &count, .lists = 1, .lease_ms = lease_ms, .join = join};
  request.bucket = vb_next(&names);
  request.name_space = vb_next(&names);
  request.leading = &matched->leading;
  request.codes = &matched->code;
  request.sizes = sizes;
  const int code = verbena_match(client, &request, NULL);
  matched->lease = request.lease;
  return vb_end(answer, code);
}

static inline int vb_end_lease(verbena_client* client, uint64_t lease, vb_answer* answer) {
  return vb_end(answer, verbena_end_lease(client, lease));
}
