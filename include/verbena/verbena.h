/* The C API of Verbena's client: a thin layer over client.h for other languages.
 *
 * Every function returns 0 or a verbena_code; verbena_last_error() then says more, for the calling thread. Handles may
 * be used from any thread at once; a handle must not be freed while another thread uses it. Strings are UTF-8 and end
 * with a zero byte. Sizes are bytes. */
#ifndef VERBENA_VERBENA_H
#define VERBENA_VERBENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct verbena_client verbena_client;
typedef struct verbena_buffer verbena_buffer;
typedef struct verbena_list verbena_list;

/* The numbers of verbena::ErrorCode. */
typedef enum verbena_code {
  VERBENA_OK = 0,
  VERBENA_INVALID_ARGUMENT = 1,
  VERBENA_NO_SUCH_BUCKET,
  VERBENA_NO_SUCH_KEY,
  VERBENA_NO_SUCH_UPLOAD,
  VERBENA_BUCKET_EXISTS,
  VERBENA_BUCKET_NOT_EMPTY,
  VERBENA_PRECONDITION_FAILED,
  VERBENA_NOT_MODIFIED,
  VERBENA_INVALID_RANGE,
  VERBENA_ACCESS_DENIED,
  VERBENA_UNKNOWN_ACCESS_KEY,
  VERBENA_CHECKSUM_MISMATCH,
  VERBENA_BUFFER_TOO_SMALL,
  VERBENA_TOO_LARGE,
  VERBENA_SLOW_DOWN,
  VERBENA_UNSUPPORTED,
  VERBENA_CONNECTION_FAILED,
  VERBENA_TIMED_OUT,
  VERBENA_OUTCOME_UNKNOWN,
  VERBENA_MALFORMED_REPLY,
  VERBENA_SERVER_ERROR,
  VERBENA_LOCAL_ERROR
} verbena_code;

/* All may be NULL: the defaults of verbena::ClientOptions. */
typedef struct verbena_options {
  const char* endpoint;        /* "http://127.0.0.1:9000" */
  const char* native_endpoint; /* "127.0.0.1:9100" */
  const char* access_key;
  const char* secret_key;
  const char* session_token;
  const char* region;
  const char* via; /* "auto", "native", "token", "http" */
  const char* ca_file;
  int insecure;       /* https without verifying the server */
  int cleartext_rdma; /* "auto" with https: allow RDMA between hosts, which TLS does not cover */
} verbena_options;

typedef struct verbena_object {
  uint64_t size;       /* of the whole object */
  int64_t modified_us; /* since the Unix epoch, UTC */
  char etag[96];       /* without quotes */
} verbena_object;

/* How the bytes went. */
typedef struct verbena_transfer {
  char door[16];     /* "native", "token", "http" */
  char provider[32]; /* "local", "tcp", "verbs;ofi_rxm", "http" */
  uint64_t bytes;
  char fell_back_reason[256]; /* empty when no faster door was skipped */
} verbena_transfer;

/* "0.1.0" */
const char* verbena_version(void);
/* Why the last call of this thread failed; "" if it did not. Valid until the thread's next call. */
const char* verbena_last_error(void);

int verbena_connect(const verbena_options* options, verbena_client** client);
void verbena_close(verbena_client* client); /* NULL is allowed, here and below */

/* Memory ready for RDMA, zeroed; or the caller's own, which must outlive the handle. Buffers may outlive the client. */
int verbena_buffer_alloc(verbena_client* client, size_t size, verbena_buffer** buffer);
int verbena_buffer_register(verbena_client* client, void* data, size_t size, verbena_buffer** buffer);
void* verbena_buffer_data(const verbena_buffer* buffer);
size_t verbena_buffer_size(const verbena_buffer* buffer);
void verbena_buffer_free(verbena_buffer* buffer);

/* GET into [offset, offset + size) of the buffer. `object`, `transfer` and `bytes` may be NULL. */
int verbena_get(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, uint64_t* bytes, verbena_object* object, verbena_transfer* transfer);
/* The `length` bytes at `first` of the object; length 0: to its end. */
int verbena_get_range(verbena_client* client, const char* bucket, const char* key, uint64_t first, uint64_t length,
                      verbena_buffer* buffer, size_t offset, size_t size, uint64_t* bytes, verbena_object* object,
                      verbena_transfer* transfer);
int verbena_put(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const char* content_type, verbena_transfer* transfer);
/* As verbena_get and verbena_put with memory that is in no buffer. */
int verbena_get_bytes(verbena_client* client, const char* bucket, const char* key, void* into, size_t size,
                      uint64_t* bytes, verbena_object* object, verbena_transfer* transfer);
int verbena_put_bytes(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                      const char* content_type, verbena_transfer* transfer);

int verbena_head(verbena_client* client, const char* bucket, const char* key, verbena_object* object);
int verbena_delete(verbena_client* client, const char* bucket, const char* key);
int verbena_make_bucket(verbena_client* client, const char* bucket);
int verbena_remove_bucket(verbena_client* client, const char* bucket);

/* Batches: up to 4,096 objects in one call, each with an outcome of its own (verbena::Client::get_many and its like).
 * Structures begin with their size as the caller knows it: fields that came later are then as if zero. */
typedef struct verbena_item {
  size_t struct_size; /* sizeof(verbena_item) */
  const char* bucket;
  const char* key;
  size_t window, offset, size; /* get, put: where the bytes go, or come from: [offset, offset + size) of that buffer */
  uint64_t range_first;        /* get: with range_length or range_first above 0 a range; length 0: to the end */
  uint64_t range_length;
  const char* version_id; /* all of these may be NULL */
  const char* if_match;
  const char* if_none_match;
  const char* content_type; /* put */
} verbena_item;

typedef struct verbena_item_result {
  int code;            /* 0 or a verbena_code */
  uint64_t bytes;      /* delivered or stored */
  uint64_t size;       /* of the whole object */
  int64_t modified_us; /* since the Unix epoch, UTC */
  char etag[96];
  char version_id[96];
} verbena_item_result;

typedef struct verbena_batch {
  size_t struct_size;        /* sizeof(verbena_batch) */
  const verbena_item* items; /* each struct_size of the first apart */
  size_t count;
  verbena_buffer* const* windows; /* at most 6; none for head and delete */
  size_t window_count;
  verbena_item_result* results; /* `count` of them, each result_size apart */
  size_t result_size;           /* sizeof(verbena_item_result) */
  /* get: called with how many of the leading items have arrived, each time that there are more. May be NULL. Must not
   * call the client. */
  void (*in_order)(void* context, size_t leading);
  void* context;
} verbena_batch;

/* 0 when every item has its result; else nothing is promised of those whose code says nothing. */
int verbena_get_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_head_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_put_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_delete_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);

/* A listing, walked with verbena_list_next: 1 for an object (`key` is valid until the next call on the list), 0 at the
 * end, a negative verbena_code on failure. */
int verbena_list_begin(verbena_client* client, const char* bucket, const char* prefix, verbena_list** list);
int verbena_list_next(verbena_list* list, const char** key, verbena_object* object);
void verbena_list_end(verbena_list* list);

#ifdef __cplusplus
}
#endif
#endif
