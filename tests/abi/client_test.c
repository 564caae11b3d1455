/* libverbena.so as a C program meets it: every kind of call, structures of other sizes, queues, cancellation, forks. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbena/verbena.h"

#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      fprintf(stderr, "%s:%d: %s [%s]\n", __FILE__, __LINE__, #condition, verbena_last_error());        \
      exit(1);                                                                                          \
    }                                                                                                   \
  } while (0)

static verbena_client* connect_by(const char* via) {
  verbena_options options = {.struct_size = sizeof options};
  options.endpoint = getenv("AWS_ENDPOINT_URL");
  options.native_endpoint = getenv("VERBENA_NATIVE");
  options.access_key = getenv("AWS_ACCESS_KEY_ID");
  options.secret_key = getenv("AWS_SECRET_ACCESS_KEY");
  options.via = via;
  options.operation_timeout_ms = 20000;
  verbena_client* client = NULL;
  CHECK(verbena_connect(&options, &client) == 0);
  return client;
}

static void objects(verbena_client* client, const char* bucket) {
  verbena_buffer* buffer = NULL;
  CHECK(verbena_buffer_alloc(client, 100000, &buffer) == 0);
  char* memory = verbena_buffer_data(buffer);
  for (int i = 0; i < 100000; ++i) memory[i] = (char)(i * 7);
  const verbena_pair metadata[] = {{"colour", "green"}, {"shape", "round"}};
  verbena_put_options put = {.struct_size = sizeof put};
  put.content_type = "text/plain";
  put.metadata = metadata;
  put.metadata_count = 2;
  verbena_object stored = {.struct_size = sizeof stored};
  CHECK(verbena_put(client, bucket, "k", buffer, 0, 100000, &put, &stored, NULL) == 0);
  CHECK(strlen(stored.etag) > 0 && stored.size == 100000);

  /* Conditions, ranges, metadata. */
  put.if_none_match = "*";
  CHECK(verbena_put(client, bucket, "k", buffer, 0, 10, &put, NULL, NULL) == VERBENA_PRECONDITION_FAILED);
  const verbena_range ranges[] = {{10, 5}, {99990, 0}};
  char got[64] = {0};
  uint64_t bytes = 0;
  verbena_info* info = NULL;
  verbena_get_options get = {.struct_size = sizeof get};
  get.ranges = ranges;
  get.range_count = 2;
  get.if_match = stored.etag;
  get.info = &info;
  verbena_object object = {.struct_size = sizeof object};
  verbena_transfer transfer = {.struct_size = sizeof transfer};
  CHECK(verbena_get_bytes(client, bucket, "k", got, sizeof got, &get, &bytes, &object, &transfer) == 0);
  CHECK(bytes == 15 && memcmp(got, memory + 10, 5) == 0 && memcmp(got + 5, memory + 99990, 10) == 0);
  CHECK(object.size == 100000 && object.modified_us > 0 && strcmp(object.etag, stored.etag) == 0);
  CHECK(transfer.bytes == 15 && transfer.attempts >= 1);
  CHECK(info != NULL && strcmp(verbena_info_content_type(info), "text/plain") == 0);
  CHECK(verbena_info_metadata_count(info) == 2);
  verbena_pair pair;
  CHECK(verbena_info_metadata(info, 0, &pair) == 0 && strcmp(pair.name, "colour") == 0 && strcmp(pair.value, "green") == 0);
  CHECK(verbena_info_metadata(info, 2, &pair) == VERBENA_INVALID_ARGUMENT);
  verbena_info_free(info);
  get.ranges = NULL;
  get.range_count = 0;
  get.info = NULL;
  get.if_match = "other";
  CHECK(verbena_get_bytes(client, bucket, "k", got, sizeof got, &get, NULL, NULL, NULL) == VERBENA_PRECONDITION_FAILED);
  CHECK(verbena_get_bytes(client, bucket, "k", got, sizeof got, NULL, NULL, NULL, NULL) == VERBENA_BUFFER_TOO_SMALL);

  /* Checksums that the caller has: right, wrong, none. */
  put = (verbena_put_options){.struct_size = sizeof put};
  put.checksum = "CRC32:7YLNEQ=="; /* of "abcd" */
  CHECK(verbena_put_bytes(client, bucket, "sum", "abcd", 4, &put, NULL, NULL) == 0);
  CHECK(verbena_put_bytes(client, bucket, "sum2", "abce", 4, &put, NULL, NULL) == VERBENA_CHECKSUM_MISMATCH);
  CHECK(verbena_head(client, bucket, "sum2", NULL, NULL) == VERBENA_NO_SUCH_KEY);
  put.checksum = "CRC33:7YLNEQ==";
  CHECK(verbena_put_bytes(client, bucket, "sum2", "abcd", 4, &put, NULL, NULL) == VERBENA_INVALID_ARGUMENT);

  /* Errors have a number, S3's name, words. */
  CHECK(verbena_head(client, bucket, "nothing", NULL, &object) == VERBENA_NO_SUCH_KEY);
  verbena_error error = {.struct_size = sizeof error};
  verbena_error_details(&error);
  CHECK(error.code == VERBENA_NO_SUCH_KEY && strlen(error.message) > 0);
  CHECK(verbena_get_bytes(client, bucket, "nothing", got, sizeof got, NULL, NULL, NULL, NULL) == VERBENA_NO_SUCH_KEY);
  verbena_error_details(&error);
  CHECK(strcmp(error.s3_code, "NoSuchKey") == 0);
  CHECK(strcmp(verbena_code_name(VERBENA_NO_SUCH_KEY), "no_such_key") == 0 && strcmp(verbena_code_name(9999), "?") == 0);

  CHECK(verbena_delete(client, bucket, "sum", NULL) == 0 && verbena_delete(client, bucket, "k", NULL) == 0);
  verbena_buffer_free(buffer);
}

/* A caller of an older header knows a beginning of each structure; one of a newer header knows more. */
static void sizes(verbena_client* client, const char* bucket) {
  CHECK(verbena_put_bytes(client, bucket, "sized", "1234", 4, NULL, NULL, NULL) == 0);
  struct { size_t struct_size; uint64_t size; int64_t modified_us; uint64_t fence; } older = {24, 0, 0, 77};
  CHECK(verbena_head(client, bucket, "sized", NULL, (verbena_object*)&older) == 0);
  CHECK(older.size == 4 && older.fence == 77 && older.struct_size == 24);
  struct { verbena_object known; char later[100]; } newer;
  memset(&newer, 'x', sizeof newer);
  newer.known.struct_size = sizeof newer;
  CHECK(verbena_head(client, bucket, "sized", NULL, &newer.known) == 0 && newer.known.size == 4 && newer.later[0] == 'x');
  /* Options of an older caller: what lies behind them is no pointer. */
  struct { size_t struct_size; const char* if_match; const char* noise; } few = {16, "other", (const char*)1};
  char got[8];
  CHECK(verbena_get_bytes(client, bucket, "sized", got, 8, (const verbena_get_options*)&few, NULL, NULL, NULL) ==
        VERBENA_PRECONDITION_FAILED);
  /* As callers of the release knew it that had no `info` yet. */
  verbena_put_options before = {.struct_size = offsetof(verbena_put_options, info), .info = (verbena_info**)1};
  CHECK(verbena_put_bytes(client, bucket, "sized", "1234", 4, &before, NULL, NULL) == 0);
  verbena_info* said = (verbena_info*)1;
  before = (verbena_put_options){.struct_size = sizeof before, .info = &said};
  CHECK(verbena_put_bytes(client, bucket, "sized", "1234", 4, &before, NULL, NULL) == 0);
  CHECK(said != NULL);
  for (size_t i = 0; i < verbena_info_header_count(said); ++i) { /* of a bucket that neither encrypts nor expires */
    verbena_pair header;
    CHECK(verbena_info_header(said, i, &header) == 0 && strncmp(header.name, "x-amz-checksum-", 15) == 0);
  }
  verbena_info_free(said);
  verbena_object unset = {.struct_size = 0};
  CHECK(verbena_head(client, bucket, "sized", NULL, &unset) == VERBENA_INVALID_ARGUMENT);
  unset.struct_size = (size_t)-1;
  CHECK(verbena_head(client, bucket, "sized", NULL, &unset) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_head(NULL, bucket, "sized", NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  /* Memory that a CPU may not reach is refused, not touched. */
  verbena_memory memory = {.struct_size = sizeof memory, .address = (void*)4096, .size = 4096};
  verbena_device_memory device = {.struct_size = sizeof device, .any_device = 1, .address = 4096, .size = 4096};
  verbena_buffer* buffer = NULL;
  for (int kind = VERBENA_MEMORY_CUDA; kind <= VERBENA_MEMORY_ROCM; ++kind) {
    device.kind = memory.kind = kind;
    int code = verbena_buffer_register(client, &memory, &buffer);
    CHECK(code == VERBENA_UNSUPPORTED || code == VERBENA_INVALID_ARGUMENT); /* without a driver, and with one */
    CHECK(strstr(verbena_last_error(), "device memory"));
    CHECK(verbena_register_device(client, &device, &buffer) == code && buffer == NULL);
  }
  device.kind = memory.kind = VERBENA_MEMORY_LEVEL_ZERO;
  CHECK(verbena_register_device(client, &device, &buffer) == VERBENA_UNSUPPORTED && strstr(verbena_last_error(), "host"));
  CHECK(verbena_buffer_register(client, &memory, &buffer) == VERBENA_UNSUPPORTED && strstr(verbena_last_error(), "host"));
  verbena_device_counters counted = {.struct_size = sizeof counted, .failed = 7};
  CHECK(verbena_count_device(client, &counted) == 0 && counted.failed == 0 && counted.staged + counted.direct == 0);
  CHECK(counted.struct_size == sizeof counted);
  struct {
    size_t struct_size;
    uint64_t staged, behind;
  } fewer = {.struct_size = 16, .behind = 9}; /* of a version that had one of the counters */
  CHECK(verbena_count_device(client, (verbena_device_counters*)&fewer) == 0 && fewer.behind == 9);
  CHECK(verbena_count_device(client, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_count_device(NULL, &counted) == VERBENA_INVALID_ARGUMENT);
  /* Host memory is not a device's: nothing is checked there, and nothing said. */
  verbena_get_options verify = {.struct_size = sizeof verify, .verify_device = 1};
  verbena_transfer moved = {.struct_size = sizeof moved};
  CHECK(verbena_get_bytes(client, bucket, "sized", got, sizeof got, &verify, NULL, NULL, &moved) == 0);
  CHECK(moved.device_verified[0] == 0 && moved.device_path[0] == 0);
  memory.kind = VERBENA_MEMORY_HOST;
  memory.address = got;
  memory.size = sizeof got;
  CHECK(verbena_buffer_register(client, &memory, &buffer) == 0);
  CHECK(verbena_get(client, bucket, "sized", buffer, 0, 8, NULL, NULL, NULL, NULL) == 0 && memcmp(got, "1234", 4) == 0);
  CHECK(verbena_get(client, bucket, "sized", buffer, 1, 8, NULL, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  verbena_buffer_free(buffer);
}

static void count_leading(void* context, size_t leading) { *(size_t*)context = leading; }

/* The items of an older caller, and of a newer one, lie as far apart as that caller says. */
static void batches(verbena_client* client, const char* bucket) {
  verbena_buffer* buffer = NULL;
  CHECK(verbena_buffer_alloc(client, 3000, &buffer) == 0);
  char* memory = verbena_buffer_data(buffer);
  for (int i = 0; i < 3000; ++i) memory[i] = (char)(i * 11);
  char before[3000];
  memcpy(before, memory, sizeof before);
  const char* keys[] = {"many/a", "many/b", "many/c"};
  struct { verbena_item known; uint64_t later; } items[3];
  memset(items, 'x', sizeof items);
  verbena_item_result results[3];
  for (int i = 0; i < 3; ++i) {
    items[i].known = (verbena_item){.struct_size = sizeof items[i], .bucket = bucket, .key = keys[i], .offset = i * 1000u, .size = 1000};
  }
  size_t leading = 0;
  verbena_batch batch = {.struct_size = sizeof batch, .items = &items[0].known, .count = 3, .windows = &buffer, .window_count = 1};
  batch.results = results;
  batch.result_size = sizeof results[0];
  batch.in_order = count_leading;
  batch.context = &leading;
  verbena_transfer transfer = {.struct_size = sizeof transfer};
  CHECK(verbena_put_many(client, &batch, &transfer) == 0 && transfer.bytes == 3000);
  for (int i = 0; i < 3; ++i) CHECK(results[i].code == 0);
  memset(memory, 0, 3000);
  items[1].known.key = "many/none";
  CHECK(verbena_get_many(client, &batch, &transfer) == 0 && transfer.bytes == 2000 && leading == 3);
  CHECK(memcmp(memory, before, 1000) == 0 && memcmp(memory + 2000, before + 2000, 1000) == 0);
  CHECK(results[0].code == 0 && results[0].size == 1000 && strlen(results[0].etag) > 0 && results[0].modified_us > 0);
  CHECK(results[1].code == VERBENA_NO_SUCH_KEY);
  items[1].known.key = keys[1];
  batch.windows = NULL;
  batch.window_count = 0;
  CHECK(verbena_head_many(client, &batch, NULL) == 0 && results[1].code == 0 && results[1].size == 1000);
  CHECK(verbena_delete_many(client, &batch, NULL) == 0 && results[2].code == 0);
  CHECK(verbena_head(client, bucket, keys[2], NULL, NULL) == VERBENA_NO_SUCH_KEY);

  transfer.struct_size = 0;
  CHECK(verbena_head_many(client, &batch, &transfer) == VERBENA_INVALID_ARGUMENT);
  items[0].known.struct_size = sizeof items[0] + 1;
  CHECK(verbena_head_many(client, &batch, NULL) == VERBENA_INVALID_ARGUMENT);
  items[0].known.struct_size = 0;
  CHECK(verbena_head_many(client, &batch, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_head_many(client, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  verbena_buffer_free(buffer);
}

static void matches(verbena_client* client, const char* bucket) {
  unsigned char hashes[3 * 16];
  for (size_t i = 0; i < sizeof hashes; ++i) hashes[i] = (unsigned char)(i / 16);
  CHECK(verbena_put_bytes(client, bucket, "ns/00000000000000000000000000000000", "abc", 3, NULL, NULL, NULL) == 0);
  CHECK(verbena_put_bytes(client, bucket, "ns/02020202020202020202020202020202", "de", 2, NULL, NULL, NULL) == 0);
  const uint32_t counts[] = {2, 1};
  uint32_t leading[2];
  int codes[2];
  uint64_t of[3] = {0, 0, 0};
  verbena_match_request request = {.struct_size = sizeof request, .bucket = bucket, .name_space = "ns", .hashes = hashes,
                                   .hashes_size = sizeof hashes, .width = 16, .counts = counts, .lists = 2,
                                   .leading = leading, .codes = codes, .sizes = of};
  verbena_transfer transfer = {.struct_size = sizeof transfer};
  CHECK(verbena_match(client, &request, &transfer) == 0);
  CHECK(leading[0] == 1 && codes[0] == VERBENA_NO_SUCH_KEY && leading[1] == 1 && codes[1] == 0);
  CHECK(of[0] == 3 && of[2] == 2 && request.lease == 0);
  request.hashes_size = 47;
  CHECK(verbena_match(client, &request, NULL) == VERBENA_INVALID_ARGUMENT);
  request.codes = NULL;
  CHECK(verbena_match(client, &request, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_match(client, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_delete(client, bucket, "ns/00000000000000000000000000000000", NULL) == 0);
  CHECK(verbena_delete(client, bucket, "ns/02020202020202020202020202020202", NULL) == 0);
}

static int64_t give_bytes(void* context, void* into, size_t size) {
  size_t* left = context;
  const size_t n = size < *left ? size : *left;
  memset(into, 's', n);
  *left -= n;
  return (int64_t)n;
}
static int64_t give_failure(void* context, void* into, size_t size) {
  (void)context, (void)into, (void)size;
  return -1;
}

/* Returns when the process has stopped. */
static void freeze(pid_t server) {
  char path[64], line[512] = {0};
  snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
  kill(server, SIGSTOP);
  for (int i = 0; i < 200; ++i) {
    usleep(50000);
    FILE* file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    const char* name_end = strrchr(line, ')');
    if (name_end != NULL && name_end[2] == 'T') break;
  }
  usleep(100000); /* its other threads */
}

/* The operation that is done next. */
static verbena_operation* next_done(verbena_queue* queue) {
  verbena_operation* done = NULL;
  while (done == NULL) CHECK(verbena_queue_next(queue, 20000, &done) == 0);
  return done;
}

/* Appends that nobody waits for. By the native door those that lie one behind the other share messages: the ETag is that of the
 * object after the message, so that as many messages as ETags were sent. */
static void logs_without_waiting(verbena_client* client, const char* bucket, int native) {
  enum { size = 100, most = 500 };
  static char records[most][size], etags[most][96];
  const int n = native ? most : 3;
  verbena_queue* queue = NULL;
  CHECK(verbena_queue_new(&queue) == 0);
  int taken = 0;
  for (int i = 0; i < n || taken < n;) {
    if (i < n) {
      memset(records[i], 'a' + i % 26, size);
      CHECK(verbena_start_append(client, queue, bucket, "async", records[i], size, (uint64_t)i * size, NULL, (void*)(intptr_t)i, NULL) == 0);
      ++i;
    }
    if (native && i < n) continue; /* over HTTP they would overtake each other */
    verbena_operation* done = next_done(queue);
    verbena_object object = {.struct_size = sizeof object};
    uint64_t bytes = 0;
    const intptr_t number = (intptr_t)verbena_operation_context(done);
    CHECK(verbena_operation_result(done, &bytes, &object, NULL) == 0 && bytes == size);
    CHECK(object.size == (uint64_t)(number + 1) * size);
    strcpy(etags[number], object.etag);
    verbena_operation_free(done);
    ++taken;
  }
  int messages = 1;
  for (int i = 1; i < n; ++i) messages += strcmp(etags[i], etags[i - 1]) != 0;
  CHECK(native ? messages < n / 4 : messages == n);
  static char got[most * size];
  uint64_t bytes = 0;
  CHECK(verbena_get_bytes(client, bucket, "async", got, sizeof got, NULL, &bytes, NULL, NULL) == 0);
  CHECK(bytes == (uint64_t)n * size && memcmp(got, records, bytes) == 0);

  verbena_info* info = NULL;
  const verbena_put_options options = {.struct_size = sizeof options, .info = &info};
  CHECK(verbena_start_append(client, queue, bucket, "async", "x", 1, 1, NULL, NULL, NULL) == 0);
  CHECK(verbena_start_append(client, queue, bucket, "async 2", "x", 1, VERBENA_APPEND_AT_END, &options, queue, NULL) == 0);
  for (int i = 0; i < 2; ++i) {
    verbena_operation* done = next_done(queue);
    const int code = verbena_operation_result(done, NULL, NULL, NULL);
    CHECK(verbena_operation_context(done) == queue ? code == 0 && verbena_operation_info(done) != NULL : code != 0);
    verbena_operation_free(done);
  }
  CHECK(verbena_start_append(client, queue, bucket, "async", NULL, 1, 0, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_start_append(client, queue, bucket, "async", "", 0, 0, NULL, NULL, NULL) == 0);
  verbena_operation* done = next_done(queue);
  CHECK(verbena_operation_result(done, NULL, NULL, NULL) != 0);
  verbena_operation_free(done);
  CHECK(verbena_delete(client, bucket, "async", NULL) == 0 && verbena_delete(client, bucket, "async 2", NULL) == 0);
  verbena_queue_free(queue);
}

/* Cancelled ones come out while the server is frozen, and their memory is the caller's again: the first is in a message, the last
 * waits behind others. */
static void logs_that_are_cancelled(verbena_client* client, const char* bucket, pid_t server) {
  enum { n = 10, size = 50 };
  char records[n][size];
  verbena_operation* operations[n];
  verbena_queue* queue = NULL;
  CHECK(verbena_queue_new(&queue) == 0);
  freeze(server);
  for (int i = 0; i < n; ++i) {
    memset(records[i], 'a' + i, size);
    CHECK(verbena_start_append(client, queue, bucket, "frozen", records[i], size, (uint64_t)i * size, NULL, NULL, &operations[i]) == 0);
  }
  verbena_operation_cancel(operations[0]);
  verbena_operation_cancel(operations[n - 1]);
  for (int i = 0; i < 2; ++i) {
    verbena_operation* done = next_done(queue);
    CHECK(done == operations[i == 0 ? 0 : n - 1]);
    CHECK(verbena_operation_result(done, NULL, NULL, NULL) == VERBENA_CANCELLED);
    verbena_operation_free(done);
  }
  memset(records[0], '!', size);
  memset(records[n - 1], '!', size);
  kill(server, SIGCONT);
  for (int i = 0; i < n - 2; ++i) {
    verbena_operation* done = next_done(queue);
    CHECK(verbena_operation_result(done, NULL, NULL, NULL) == 0);
    verbena_operation_free(done);
  }
  char got[n * size];
  uint64_t bytes = 0;
  CHECK(verbena_get_bytes(client, bucket, "frozen", got, sizeof got, NULL, &bytes, NULL, NULL) == 0 && bytes == (n - 1) * size);
  for (int i = 0; i < (n - 1) * size; ++i) CHECK(got[i] == 'a' + i / size);
  CHECK(verbena_delete(client, bucket, "frozen", NULL) == 0);
  verbena_queue_free(queue);
}

/* Directory buckets: logs that grow, and objects that get other names. */
static void logs(verbena_client* maker, verbena_client* client, const char* bucket, const char* via, pid_t server) {
  CHECK(verbena_make_bucket(maker, bucket, NULL) == 0);
  verbena_object object = {.struct_size = sizeof object};
  CHECK(verbena_append(client, bucket, "log", "one ", 4, 0, NULL, &object, NULL) == 0 && object.size == 4);
  CHECK(verbena_append(client, bucket, "log", "two", 3, VERBENA_APPEND_AT_END, NULL, &object, NULL) == 0 && object.size == 7);
  CHECK(verbena_append(client, bucket, "log", "x", 1, 6, NULL, NULL, NULL) != 0);
  verbena_error error = {.struct_size = sizeof error};
  verbena_error_details(&error);
  CHECK(strcmp(error.s3_code, "InvalidWriteOffset") == 0);
  CHECK(verbena_append(client, bucket, "log", NULL, 1, 7, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  verbena_rename_options rename = {.struct_size = sizeof rename, .if_none_match = "*"};
  CHECK(verbena_append(client, bucket, "there", "-", 1, 0, NULL, NULL, NULL) == 0);
  CHECK(verbena_rename(client, bucket, "log", "there", &rename) == VERBENA_PRECONDITION_FAILED);
  CHECK(verbena_rename(client, bucket, "log", "there", NULL) == 0);
  char got[8] = {0};
  uint64_t bytes = 0;
  CHECK(verbena_get_bytes(client, bucket, "there", got, sizeof got, NULL, &bytes, NULL, NULL) == 0);
  CHECK(bytes == 7 && strcmp(got, "one two") == 0);
  CHECK(verbena_rename(client, bucket, "log", "there", NULL) == VERBENA_NO_SUCH_KEY);
  CHECK(verbena_rename(client, bucket, "log", NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  const int native = strcmp(via, "native") == 0;
  logs_without_waiting(client, bucket, native);
  if (native) logs_that_are_cancelled(client, bucket, server);
  CHECK(verbena_delete(client, bucket, "there", NULL) == 0 && verbena_remove_bucket(maker, bucket) == 0);
}

static void* stop_soon(void* watch) {
  usleep(50000);
  verbena_watch_stop(watch);
  return NULL;
}

static void watches(verbena_client* maker, verbena_client* client, const char* bucket, const char* via) {
  verbena_watch_options options = {.struct_size = sizeof options, .prefix = "w/"};
  verbena_watch* watch = (verbena_watch*)1;
  if (strcmp(via, "http") == 0) {
    CHECK(verbena_watch_begin(client, bucket, &options, &watch) == VERBENA_UNSUPPORTED && watch == NULL);
    return;
  }
  verbena_watch_options broken = {.struct_size = 1};
  CHECK(verbena_watch_begin(client, bucket, &broken, &watch) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_watch_begin(client, "no-such-bucket", NULL, &watch) == VERBENA_NO_SUCH_BUCKET && watch == NULL);
  CHECK(verbena_watch_begin(client, bucket, &options, &watch) == 0);
  const char* key = "?";
  verbena_change change = {.struct_size = sizeof change};
  CHECK(verbena_watch_next(watch, 0, &key, &change) == VERBENA_WATCH_NOTHING && key == NULL);
  CHECK(verbena_put_bytes(maker, bucket, "elsewhere", "no", 2, NULL, NULL, NULL) == 0);
  CHECK(verbena_put_bytes(maker, bucket, "w/a", "yes", 3, NULL, NULL, NULL) == 0);
  CHECK(verbena_delete(maker, bucket, "w/a", NULL) == 0 && verbena_delete(maker, bucket, "elsewhere", NULL) == 0);
  CHECK(verbena_watch_next(watch, 20000, &key, &change) == VERBENA_WATCH_CHANGE && strcmp(key, "w/a") == 0);
  CHECK(change.what == VERBENA_KEY_CREATED && change.size == 3 && strlen(change.etag) > 0 && change.number > 0);
  /* Who knows less of the structure gets that. */
  struct {
    size_t struct_size;
    int what, untouched;
  } old = {.struct_size = offsetof(verbena_change, what) + sizeof(int), .untouched = 7};
  CHECK(verbena_watch_next(watch, 20000, &key, (verbena_change*)&old) == VERBENA_WATCH_CHANGE);
  CHECK(old.what == VERBENA_KEY_REMOVED && old.untouched == 7);
  CHECK(strcmp(verbena_key_event_name(old.what), "removed") == 0 && strcmp(verbena_key_event_name(999), "?") == 0);
  CHECK(verbena_watch_next(NULL, 0, &key, NULL) == -VERBENA_INVALID_ARGUMENT);
  pthread_t stopper;
  CHECK(pthread_create(&stopper, NULL, stop_soon, watch) == 0);
  CHECK(verbena_watch_next(watch, -1, &key, NULL) == -VERBENA_CANCELLED);
  CHECK(pthread_join(stopper, NULL) == 0);
  verbena_watch_end(watch);
  verbena_watch_end(NULL);
}

static void listings(verbena_client* client, const char* bucket) {
  size_t left = 300000;
  CHECK(verbena_put_stream(client, bucket, "d/streamed", give_bytes, &left, NULL, NULL, NULL) == 0);
  CHECK(verbena_put_stream(client, bucket, "d/failed", give_failure, NULL, NULL, NULL, NULL) == VERBENA_LOCAL_ERROR);
  CHECK(verbena_put_bytes(client, bucket, "d/e", "", 0, NULL, NULL, NULL) == 0);
  verbena_list_options options = {.struct_size = sizeof options, .delimiter = "/"};
  verbena_page* page = NULL;
  CHECK(verbena_list_page(client, bucket, &options, &page) == 0);
  verbena_object object = {.struct_size = sizeof object};
  CHECK(verbena_page_count(page) == 1 && strcmp(verbena_page_object(page, 0, &object), "sized") == 0 && object.size == 4);
  CHECK(verbena_page_prefix_count(page) == 1 && strcmp(verbena_page_prefix(page, 0), "d/") == 0);
  CHECK(verbena_page_object(page, 1, NULL) == NULL && verbena_page_prefix(page, 1) == NULL);
  CHECK(verbena_page_continuation(page) == NULL);
  verbena_page_free(page);
  options = (verbena_list_options){.struct_size = sizeof options, .max_keys = 1};
  verbena_list* list = NULL;
  CHECK(verbena_list_begin(client, bucket, &options, &list) == 0);
  const char* key = NULL;
  int n = 0;
  while (verbena_list_next(list, &key, &object) == 1) ++n;
  CHECK(n == 3 && strcmp(key, "sized") == 0);
  verbena_list_end(list);
  CHECK(verbena_list_begin(client, "no-such-bucket", NULL, &list) == 0);
  CHECK(verbena_list_next(list, &key, NULL) == -VERBENA_NO_SUCH_BUCKET);
  verbena_list_end(list);
  CHECK(verbena_buckets(client, &page) == 0 && verbena_page_count(page) >= 1);
  verbena_page_free(page);
}

static void queues(verbena_client* client, const char* bucket) {
  enum { n = 40, size = 30000 };
  verbena_queue* queue = NULL;
  verbena_buffer* buffer = NULL;
  verbena_operation* done = (verbena_operation*)1;
  CHECK(verbena_queue_new(&queue) == 0 && verbena_buffer_alloc(client, (size_t)n * size, &buffer) == 0);
  CHECK(verbena_queue_next(queue, 0, &done) == 0 && done == NULL);
  char* memory = verbena_buffer_data(buffer);
  for (int put = 1; put >= 0; --put) {
    for (int i = 0; i < n; ++i) {
      char key[32];
      snprintf(key, sizeof key, "q/%d", i);
      if (put) memset(memory + (size_t)i * size, 'a' + i % 26, size);
      void* context = (void*)(intptr_t)(i + 1);
      CHECK((put ? verbena_start_put(client, queue, bucket, key, buffer, (size_t)i * size, size, NULL, context, NULL)
                 : verbena_start_get(client, queue, bucket, key, buffer, (size_t)i * size, size, NULL, context, NULL)) == 0);
    }
    unsigned long long seen = 0;
    for (int i = 0; i < n; ++i) {
      struct pollfd readable = {verbena_queue_fd(queue), POLLIN, 0};
      CHECK(poll(&readable, 1, 20000) == 1);
      CHECK(verbena_queue_next(queue, 0, &done) == 0 && done != NULL);
      uint64_t bytes = 0;
      CHECK(verbena_operation_result(done, &bytes, NULL, NULL) == 0 && bytes == size);
      seen |= 1ull << ((intptr_t)verbena_operation_context(done) - 1);
      verbena_operation_free(done);
    }
    CHECK(seen == (1ull << n) - 1);
    struct pollfd quiet = {verbena_queue_fd(queue), POLLIN, 0};
    CHECK(poll(&quiet, 1, 0) == 0);
    if (put) memset(memory, 0, (size_t)n * size);
  }
  for (int i = 0; i < n; ++i) CHECK(memory[(size_t)i * size + size - 1] == 'a' + i % 26);

  CHECK(verbena_start_list(client, queue, bucket, NULL, NULL, NULL) == 0);
  CHECK(verbena_queue_next(queue, -1, &done) == 0 && verbena_operation_result(done, NULL, NULL, NULL) == 0);
  CHECK(verbena_page_count(verbena_operation_page(done)) == n + 3);
  verbena_operation_free(done);
  CHECK(verbena_start_head(client, queue, bucket, "absent", NULL, NULL, NULL) == 0);
  CHECK(verbena_queue_next(queue, -1, &done) == 0);
  CHECK(verbena_operation_result(done, NULL, NULL, NULL) == VERBENA_NO_SUCH_KEY);
  verbena_operation_free(done);
  CHECK(verbena_start_delete(client, queue, bucket, "q/0", NULL, NULL, NULL) == 0);
  CHECK(verbena_queue_next(queue, -1, &done) == 0 && verbena_operation_result(done, NULL, NULL, NULL) == 0);
  verbena_operation_free(done);
  /* A queue may go before what was started on it. */
  CHECK(verbena_start_get(client, queue, bucket, "q/1", buffer, 0, size, NULL, NULL, NULL) == 0);
  verbena_queue_free(queue);
  verbena_buffer_free(buffer);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void* cancel_soon(void* cancellation) {
  usleep(200000);
  verbena_cancel(cancellation);
  return NULL;
}

/* A frozen server answers nobody: only the cancellation ends the calls, long before their timeouts. */
static void cancellations(verbena_client* client, const char* bucket, pid_t server) {
  verbena_buffer* buffer = NULL;
  CHECK(verbena_buffer_alloc(client, 1 << 20, &buffer) == 0);
  memset(verbena_buffer_data(buffer), 'c', 1 << 20);
  CHECK(verbena_put(client, bucket, "cancelled", buffer, 0, 1 << 20, NULL, NULL, NULL) == 0);
  freeze(server);
  const double begin = seconds();
  verbena_cancellation* cancellation = NULL;
  CHECK(verbena_cancellation_new(&cancellation) == 0);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_soon, cancellation);
  verbena_get_options get = {.struct_size = sizeof get, .cancellation = cancellation};
  CHECK(verbena_get(client, bucket, "cancelled", buffer, 0, 1 << 20, &get, NULL, NULL, NULL) == VERBENA_CANCELLED);
  pthread_join(thread, NULL);
  /* It stays cancelled. */
  verbena_put_options put = {.struct_size = sizeof put, .cancellation = cancellation};
  CHECK(verbena_put(client, bucket, "cancelled", buffer, 0, 10, &put, NULL, NULL) == VERBENA_CANCELLED);
  verbena_cancellation_free(cancellation);

  verbena_queue* queue = NULL;
  verbena_operation *started = NULL, *done = NULL;
  CHECK(verbena_queue_new(&queue) == 0);
  CHECK(verbena_start_get(client, queue, bucket, "cancelled", buffer, 0, 1 << 20, NULL, NULL, &started) == 0);
  CHECK(verbena_queue_next(queue, 50, &done) == 0 && done == NULL);
  verbena_operation_cancel(started);
  CHECK(verbena_queue_next(queue, 15000, &done) == 0 && done == started);
  CHECK(verbena_operation_result(done, NULL, NULL, NULL) == VERBENA_CANCELLED);
  verbena_operation_free(done);
  CHECK(seconds() - begin < 15);
  memset(verbena_buffer_data(buffer), 'z', 1 << 20);
  kill(server, SIGCONT);
  /* What was cancelled does not land later. */
  CHECK(verbena_head(client, bucket, "cancelled", NULL, NULL) == 0);
  for (int i = 0; i < 1 << 20; ++i) CHECK(((char*)verbena_buffer_data(buffer))[i] == 'z');
  verbena_queue_free(queue);
  verbena_buffer_free(buffer);
}

static void forks(verbena_client* client, const char* bucket, const char* via) {
  verbena_buffer* buffer = NULL;
  verbena_queue* queue = NULL;
  CHECK(verbena_buffer_alloc(client, 4096, &buffer) == 0 && verbena_queue_new(&queue) == 0);
  CHECK(verbena_put(client, bucket, "forked", buffer, 0, 4096, NULL, NULL, NULL) == 0);
  const pid_t child = fork();
  if (child == 0) {
    verbena_operation* done = NULL;
    CHECK(verbena_get(client, bucket, "forked", buffer, 0, 4096, NULL, NULL, NULL, NULL) == VERBENA_FORKED);
    CHECK(verbena_start_get(client, queue, bucket, "forked", buffer, 0, 4096, NULL, NULL, NULL) == VERBENA_FORKED);
    CHECK(verbena_queue_next(queue, -1, &done) == VERBENA_FORKED);
    CHECK(verbena_head(client, bucket, "forked", NULL, NULL) == VERBENA_FORKED);
    verbena_item item = {.struct_size = sizeof item, .bucket = bucket, .key = "forked"};
    verbena_item_result result;
    const verbena_batch batch = {.struct_size = sizeof batch, .items = &item, .count = 1, .results = &result, .result_size = sizeof result};
    CHECK(verbena_head_many(client, &batch, NULL) == VERBENA_FORKED);
    verbena_buffer_free(buffer);
    verbena_queue_free(queue);
    verbena_close(client);
    verbena_client* own = connect_by(via);
    char memory[4096];
    CHECK(verbena_get_bytes(own, bucket, "forked", memory, sizeof memory, NULL, NULL, NULL, NULL) == 0);
    verbena_close(own);
    exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  /* The parent goes on as if nothing had been. */
  CHECK(verbena_get(client, bucket, "forked", buffer, 0, 4096, NULL, NULL, NULL, NULL) == 0);
  verbena_buffer_free(buffer);
  verbena_queue_free(queue);
}

/* What a client that began an upload gets is tested where there is one: tests/clients. */
static void parts(verbena_client* client, const char* bucket, const char* via) {
  const int native = strcmp(via, "native") == 0;
  verbena_part_options options = {.struct_size = sizeof options, .md5_etag = 1};
  verbena_object object = {.struct_size = sizeof object};
  CHECK(verbena_put_part(client, bucket, "k", "no-such-upload", 1, "x", 1, &options, &object, NULL) ==
        (native ? VERBENA_UNSUPPORTED : VERBENA_NO_SUCH_UPLOAD));
  CHECK(verbena_put_part(client, bucket, "k", "u", 0, "x", 1, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_put_part(client, bucket, "k", "u", 10001, "x", 1, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_put_part(client, bucket, "", "u", 1, "x", 1, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_put_part(client, bucket, "k", NULL, 1, "x", 1, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_put_part(client, bucket, "k", "u", 1, NULL, 1, NULL, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  options.checksum = "nonsense";
  CHECK(verbena_put_part(client, bucket, "k", "u", 1, "x", 1, &options, NULL, NULL) == VERBENA_INVALID_ARGUMENT);
  options = (verbena_part_options){.struct_size = sizeof options};
  CHECK(verbena_cancellation_new(&options.cancellation) == 0);
  verbena_cancel(options.cancellation);
  if (!native) CHECK(verbena_put_part(client, bucket, "k", "u", 1, "x", 1, &options, NULL, NULL) == VERBENA_CANCELLED);
  verbena_cancellation_free(options.cancellation);
}

static void bounds(verbena_client* client, const char* bucket) {
  verbena_bound bound = {.struct_size = sizeof bound, .bytes_max = 1 << 20, .policy = "lru", .renew_on_read = 1};
  CHECK(verbena_set_bound(client, bucket, &bound) == 0);
  verbena_bound found = {.struct_size = sizeof found};
  CHECK(verbena_get_bound(client, bucket, &found) == 0 && found.bytes_max == 1 << 20 && found.objects_max == 0);
  CHECK(strcmp(found.policy, "lru") == 0 && found.renew_on_read == 1);
  CHECK(strcmp(found.keep_suffix, "/namespace.json") == 0 && found.keep_none == 0);
  bound.keep_none = 1;
  CHECK(verbena_set_bound(client, bucket, &bound) == 0 && verbena_get_bound(client, bucket, &found) == 0);
  CHECK(strcmp(found.keep_suffix, "") == 0 && found.keep_none == 1);
  memset(bound.policy, 'x', sizeof bound.policy);
  CHECK(verbena_set_bound(client, bucket, &bound) == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_set_bound(client, bucket, NULL) == 0 && verbena_get_bound(client, bucket, &found) == 0);
  CHECK(found.bytes_max == 0 && strcmp(found.policy, "") == 0);
  CHECK(verbena_get_bound(client, "no-such-bucket", &found) == VERBENA_NO_SUCH_BUCKET);
  CHECK(verbena_get_bound(client, bucket, NULL) == VERBENA_INVALID_ARGUMENT);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* via = argv[1];
  char bucket[64];
  snprintf(bucket, sizeof bucket, "abi-%s", via);
  verbena_options broken = {.struct_size = 0};
  verbena_client* none = (verbena_client*)1;
  CHECK(verbena_connect(&broken, &none) == VERBENA_INVALID_ARGUMENT && none == NULL);
  verbena_client* http = connect_by("http");
  CHECK(verbena_make_bucket(http, bucket, NULL) == 0);
  CHECK(verbena_make_bucket(http, "No Bucket", NULL) != 0 && verbena_remove_bucket(http, "no-such-bucket") == VERBENA_NO_SUCH_BUCKET);
  verbena_client* client = connect_by(via);
  CHECK(verbena_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331") == VERBENA_INVALID_ARGUMENT);
  CHECK(verbena_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") == 0);
  objects(client, bucket);
  CHECK(verbena_trace(NULL) == 0);
  sizes(client, bucket);
  bounds(client, bucket);
  listings(client, bucket);
  watches(http, client, bucket, via);
  logs(http, client, "abi-logs--local1-az1--x-s3", via, (pid_t)atoi(argv[2]));
  batches(client, bucket);
  matches(client, bucket);
  parts(client, bucket, via);
  queues(client, bucket);
  cancellations(client, bucket, (pid_t)atoi(argv[2]));
  forks(client, bucket, via);
  verbena_close(client);
  verbena_close(http);
  verbena_close(NULL);
  printf("%s: all well\n", via);
  return 0;
}
