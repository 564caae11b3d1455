/* The C API of Verbena's client: a thin layer over client.h for other languages, in libverbena.so.0.
 *
 * Functions that can fail return 0 or a verbena_code; verbena_last_error() and verbena_error_details() then say more,
 * for the calling thread. Handles may be used from any thread at once; a handle must not be freed while another thread
 * uses it. Strings are UTF-8 and end with a zero byte. Sizes are bytes, times microseconds since the Unix epoch (UTC).
 *
 * Structures begin with their size as the caller knows it (sizeof): fields that came later are then as if zero, and are
 * not written. Zero, or NULL, is the default of every field. Enumerations may get further values.
 *
 * After a fork the child may free what it has of the parent's handles, which leaves the parent's connections alone; all
 * other calls with them fail with VERBENA_FORKED. It makes clients of its own. */
#ifndef VERBENA_VERBENA_H
#define VERBENA_VERBENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct verbena_client verbena_client;
typedef struct verbena_buffer verbena_buffer;
typedef struct verbena_info verbena_info;
typedef struct verbena_page verbena_page;
typedef struct verbena_list verbena_list;
typedef struct verbena_watch verbena_watch;
typedef struct verbena_cancellation verbena_cancellation;
typedef struct verbena_queue verbena_queue;
typedef struct verbena_operation verbena_operation;

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
  VERBENA_LOCAL_ERROR,
  VERBENA_CANCELLED,
  VERBENA_FORKED
} verbena_code;

/* ---- Errors ---- */

/* "0.1.0" */
const char* verbena_version(void);
/* "no_such_key"; "?" for a number that is none. */
const char* verbena_code_name(int code);
/* Why the last call of this thread failed; "" if it did not. Valid until the thread's next call. */
const char* verbena_last_error(void);

typedef struct verbena_error {
  size_t struct_size;
  int code;
  int http_status;      /* 0: the failure did not come over HTTP */
  char s3_code[64];     /* "NoSuchKey"; empty when S3 has no name for it */
  char request_id[128]; /* the server's, when it gave one */
  char message[1024];   /* one line for people; never holds a secret */
} verbena_error;
/* Of the last call of this thread; code 0 if it did not fail. */
void verbena_error_details(verbena_error* error);

/* ---- Traces ---- */

/* From now on the requests that this thread sends belong to the trace of this W3C traceparent; NULL: to none. Those of
 * batches, and what goes by the client's own threads, do not. VERBENA_INVALID_ARGUMENT for what is no traceparent. */
int verbena_trace(const char* traceparent);

/* ---- Clients ---- */

typedef struct verbena_options {
  size_t struct_size;
  const char* endpoint;        /* "http://127.0.0.1:9000" */
  const char* native_endpoint; /* "127.0.0.1:9100" */
  const char* access_key;      /* NULL: anonymous, HTTP only */
  const char* secret_key;
  const char* session_token;
  const char* region;
  const char* via;      /* "auto", "native", "token", "http" */
  const char* provider; /* native: "auto", "local", "verbs", "tcp", "efa", "cxi" */
  const char* ca_file;
  int insecure;             /* https without verifying the server */
  int cleartext_rdma;       /* "auto" with https: allow RDMA between hosts, which TLS does not cover */
  int unsigned_payload;     /* plain HTTP: bodies are not part of the signature */
  int unverified_checksums; /* whole-object GETs are not checked against the object's checksum */
  uint64_t connect_timeout_ms;
  uint64_t operation_timeout_ms; /* without any progress */
  unsigned attempts_max;         /* of one operation, with backoff in between */
  unsigned connections_max;      /* kept alive while idle */
  unsigned async_threads;        /* asynchronous operations in flight where the native door is not open */
  unsigned parts_in_flight;
  uint64_t multipart_threshold; /* HTTP and token PUTs above this go in parts */
  uint64_t part_size;
  uint64_t token_size_min;
} verbena_options;

/* `options` may be NULL. */
int verbena_connect(const verbena_options* options, verbena_client** client);
/* Requests in flight end first. NULL is allowed, here and in every function that frees. */
void verbena_close(verbena_client* client);
/* Which door a transfer of that size would try first now: "native", "token", "http". */
const char* verbena_preferred(verbena_client* client, uint64_t size);

/* ---- Memory ---- */

typedef enum verbena_memory_kind {
  VERBENA_MEMORY_HOST = 0,
  VERBENA_MEMORY_CUDA = 1,
  VERBENA_MEMORY_ROCM = 2,
  VERBENA_MEMORY_LEVEL_ZERO = 3,
  VERBENA_MEMORY_DMABUF = 4
} verbena_memory_kind;

/* Memory of the caller's. Host memory is served; VERBENA_UNSUPPORTED says so of every other kind. */
typedef struct verbena_memory {
  size_t struct_size;
  void* address;
  size_t size;
  int kind;      /* a verbena_memory_kind */
  int device;    /* its number among those of the kind */
  int dmabuf_fd; /* of VERBENA_MEMORY_DMABUF */
  uint64_t dmabuf_offset;
} verbena_memory;

/* Memory ready for RDMA, zeroed; or the caller's own, which must outlive the handle. Buffers may outlive the client. */
int verbena_buffer_alloc(verbena_client* client, size_t size, verbena_buffer** buffer);
int verbena_buffer_register(verbena_client* client, const verbena_memory* memory, verbena_buffer** buffer);
void* verbena_buffer_data(const verbena_buffer* buffer);
size_t verbena_buffer_size(const verbena_buffer* buffer);
void verbena_buffer_free(verbena_buffer* buffer);

/* ---- Objects ---- */

typedef struct verbena_object {
  size_t struct_size;
  uint64_t size; /* of the whole object */
  int64_t modified_us;
  char etag[96];        /* without quotes */
  char version_id[128]; /* empty when the object has none */
} verbena_object;

/* How the bytes went. */
typedef struct verbena_transfer {
  size_t struct_size;
  uint64_t bytes;
  unsigned attempts;
  char door[16];              /* "native", "token", "http" */
  char provider[32];          /* "local", "tcp", "verbs;ofi_rxm", "http" */
  char fell_back_reason[256]; /* empty when no faster door was skipped */
} verbena_transfer;

typedef struct verbena_pair {
  const char* name;
  const char* value;
} verbena_pair;

/* `length` 0: to the end. */
typedef struct verbena_range {
  uint64_t offset, length;
} verbena_range;

/* Ends the calls that were given it, from another thread or a signal's deputy, with VERBENA_CANCELLED and within some
 * 20 ms; calls that come later, too. Memory of a cancelled call is not touched any more once that has returned. Whether
 * a change happened is not known. */
int verbena_cancellation_new(verbena_cancellation** cancellation);
void verbena_cancel(verbena_cancellation* cancellation);
void verbena_cancellation_free(verbena_cancellation* cancellation); /* calls that were given it may go on */

/* Options may be NULL, and so may be all that they point to. ETags are without quotes, or "*". */
typedef struct verbena_get_options {
  size_t struct_size;
  const char* if_match;
  const char* if_none_match;
  const char* version_id;      /* by http or token: the native door has versions in batches alone */
  const verbena_range* ranges; /* their bytes land one after the other, all of one version of the object */
  size_t range_count;
  verbena_info** info; /* where to put what else is known of the object; to be freed. NULL on failure */
  verbena_cancellation* cancellation;
} verbena_get_options;

typedef struct verbena_put_options {
  size_t struct_size;
  const char* content_type;
  const verbena_pair* metadata; /* x-amz-meta-*, names without the prefix */
  size_t metadata_count;
  const char* if_match;
  const char* if_none_match;
  const char* checksum; /* "CRC32C:yZRlqg==": what the bytes must have, else nothing is stored */
  int md5_etag;         /* the ETag is to be the MD5 of the bytes whichever way they go */
  verbena_cancellation* cancellation;
  verbena_info** info; /* as in verbena_get_options: its headers are what the server says of the new object */
} verbena_put_options;

typedef struct verbena_head_options {
  size_t struct_size;
  const char* version_id;
  verbena_info** info; /* as in verbena_get_options */
  verbena_cancellation* cancellation;
} verbena_head_options;

typedef struct verbena_delete_options {
  size_t struct_size;
  const char* version_id;
  const char* if_match;
  verbena_cancellation* cancellation;
} verbena_delete_options;

/* GET into [offset, offset + size) of the buffer. `bytes`, `object` and `transfer` may be NULL.
 * VERBENA_BUFFER_TOO_SMALL when the object, or its ranges, do not fit; nothing is then promised about the memory's
 * content, nor after any other failure. */
int verbena_get(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                verbena_transfer* transfer);
int verbena_put(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);
/* The same with memory that is in no buffer. */
int verbena_get_bytes(verbena_client* client, const char* bucket, const char* key, void* into, size_t size,
                      const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                      verbena_transfer* transfer);
int verbena_put_bytes(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                      const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);

/* Fills `into` unless the end comes first, and returns the bytes filled; negative: failed, and so does the call. */
typedef int64_t (*verbena_reader)(void* context, void* into, size_t size);
/* PUT of unknown length, in bounded memory. The reader is called by one thread at a time, which may be another one. */
int verbena_put_stream(verbena_client* client, const char* bucket, const char* key, verbena_reader reader,
                       void* context, const verbena_put_options* options, verbena_object* object,
                       verbena_transfer* transfer);

/* For clients of S3 that give single requests away. */
typedef struct verbena_part_options {
  size_t struct_size;
  const char* checksum; /* as in verbena_put_options: that of the part */
  int md5_etag;
  verbena_cancellation* cancellation;
  verbena_info** info; /* as in verbena_put_options */
} verbena_part_options;

/* One part, number 1 to 10,000, of an upload that someone began by CreateMultipartUpload and will complete: by token
 * where that works and over HTTP where not. `object` gets its size and ETag. */
int verbena_put_part(verbena_client* client, const char* bucket, const char* key, const char* upload_id,
                     unsigned number, const void* from, size_t size, const verbena_part_options* options,
                     verbena_object* object, verbena_transfer* transfer);

int verbena_head(verbena_client* client, const char* bucket, const char* key, const verbena_head_options* options,
                 verbena_object* object);
/* Succeeds for a key that does not exist, as S3 does. */
int verbena_delete(verbena_client* client, const char* bucket, const char* key, const verbena_delete_options* options);

/* Appends `size` bytes to an object in a directory bucket (or one that takes appends), which must be `at` bytes long,
 * or VERBENA_APPEND_AT_END: however long it is; 0 makes the object where there is none. One change: readers see the
 * object before it or after it. Not repeated once it may have happened. `object` gets the size of the whole. Of the
 * options metadata and content type are for the append that makes the object. */
#define VERBENA_APPEND_AT_END UINT64_MAX
int verbena_append(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                   uint64_t at, const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);

typedef struct verbena_rename_options {
  size_t struct_size;
  const char* source_if_match;
  const char* if_match;      /* of what is at the new name */
  const char* if_none_match; /* "*": nothing may be there */
  const char* token;         /* 1 to 64 visible characters: asked for again under it, it is not done again */
  verbena_cancellation* cancellation;
} verbena_rename_options;
/* Gives an object of a directory bucket another name: one change, no byte is copied, what was there goes. */
int verbena_rename(verbena_client* client, const char* bucket, const char* from, const char* to,
                   const verbena_rename_options* options);

/* What is known of an object beside verbena_object. Strings are valid until the info is freed. */
const char* verbena_info_content_type(const verbena_info* info);
const char* verbena_info_checksum(const verbena_info* info); /* "CRC32C:yZRlqg=="; "" when none is known */
size_t verbena_info_metadata_count(const verbena_info* info);
/* VERBENA_INVALID_ARGUMENT past the end. */
int verbena_info_metadata(const verbena_info* info, size_t index, verbena_pair* pair);
/* What else is stored with the object or said of it, lower-case names: "cache-control",
 * "x-amz-server-side-encryption", "x-amz-expiration". */
size_t verbena_info_header_count(const verbena_info* info);
int verbena_info_header(const verbena_info* info, size_t index, verbena_pair* pair);
void verbena_info_free(verbena_info* info);

/* ---- Buckets ---- */

typedef struct verbena_bucket_options {
  size_t struct_size;
  int memory; /* PUTs are acknowledged from memory and written behind: scratch data */
} verbena_bucket_options;
int verbena_make_bucket(verbena_client* client, const char* bucket, const verbena_bucket_options* options);
int verbena_remove_bucket(verbena_client* client, const char* bucket);

/* ---- Batches ---- */

/* Up to 4,096 objects in one call, each with an outcome of its own (verbena::Client::get_many and its like). */
typedef struct verbena_item {
  size_t struct_size; /* the same for all items of a batch */
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
  int code;       /* 0 or a verbena_code */
  uint64_t bytes; /* delivered or stored */
  uint64_t size;  /* of the whole object */
  int64_t modified_us;
  char etag[96];
  char version_id[128];
} verbena_item_result;

typedef struct verbena_batch {
  size_t struct_size;
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

/* ---- Listings ---- */

typedef struct verbena_list_options {
  size_t struct_size;
  const char* prefix;
  const char* delimiter;    /* "/" for one level */
  const char* after;        /* keys after this one */
  const char* continuation; /* of the page before */
  unsigned max_keys;        /* 1 to 1000, which is the default */
  verbena_cancellation* cancellation;
} verbena_list_options;

/* One page of a listing. What it gives is valid until it is freed. */
int verbena_list_page(verbena_client* client, const char* bucket, const verbena_list_options* options,
                      verbena_page** page);
/* The names of all buckets, as the keys of a page; modified_us is when they were made. */
int verbena_buckets(verbena_client* client, verbena_page** page);
size_t verbena_page_count(const verbena_page* page);
/* The key, NULL past the end. `object` may be NULL. */
const char* verbena_page_object(const verbena_page* page, size_t index, verbena_object* object);
size_t verbena_page_prefix_count(const verbena_page* page);
const char* verbena_page_prefix(const verbena_page* page, size_t index); /* NULL past the end */
const char* verbena_page_continuation(const verbena_page* page);         /* NULL: it is the last page */
void verbena_page_free(verbena_page* page);

/* All keys of a listing, walked with verbena_list_next: 1 for an object (`key` is valid until the next call on the
 * list), 0 at the end, a negative verbena_code on failure. Prefixes of a delimiter are left out. */
int verbena_list_begin(verbena_client* client, const char* bucket, const verbena_list_options* options,
                       verbena_list** list);
int verbena_list_next(verbena_list* list, const char** key, verbena_object* object);
void verbena_list_end(verbena_list* list);

/* ---- Watches ---- */

/* What became of a key. The numbers of verbena::KeyEvent. */
typedef enum verbena_key_event {
  VERBENA_KEY_CREATED = 1,      /* there is a new object: put, copied, completed */
  VERBENA_KEY_APPENDED = 2,     /* bytes came to its end */
  VERBENA_KEY_REMOVED = 3,      /* the object is gone, or the version that is named */
  VERBENA_KEY_MARKED = 4,       /* a delete marker is the newest version now */
  VERBENA_KEY_CHANGED = 5,      /* tags, access list, lock: the bytes are the same */
  VERBENA_KEY_RENAMED_AWAY = 6, /* it has another key now */
  VERBENA_KEY_RENAMED_HERE = 7  /* it came from another key */
} verbena_key_event;
/* "created", "renamed_away"; "?" for a number that is none. */
const char* verbena_key_event_name(int what);

typedef struct verbena_watch_options {
  size_t struct_size;
  const char* prefix;                 /* NULL: all keys */
  verbena_cancellation* cancellation; /* of verbena_watch_begin alone */
} verbena_watch_options;

typedef struct verbena_change {
  size_t struct_size;
  int what;             /* a verbena_key_event */
  uint64_t size;        /* of the object as it is now */
  int64_t time_us;      /* when what is there was written; or when it went */
  uint64_t number;      /* of one watch: grows with each change */
  char etag[96];        /* empty where nothing is left */
  char version_id[128]; /* in buckets with versions, for those who may list them */
} verbena_change;

enum { VERBENA_WATCH_NOTHING = 0, VERBENA_WATCH_CHANGE = 1, VERBENA_WATCH_GAP = 2 };

/* Tells what becomes of the keys under a prefix, by the native door alone (VERBENA_UNSUPPORTED by others). */
int verbena_watch_begin(verbena_client* client, const char* bucket, const verbena_watch_options* options,
                        verbena_watch** watch);
/* Waits until something happened, at most so long (-1: without end): VERBENA_WATCH_CHANGE, with the key, valid until
 * the next call on the watch, and `change`, which may be NULL; VERBENA_WATCH_GAP: something was missed, and what is
 * kept of keys under the prefix is not to be trusted; VERBENA_WATCH_NOTHING; or a negative verbena_code. After
 * VERBENA_CONNECTION_FAILED or VERBENA_SLOW_DOWN one may ask again. A thread at a time. */
int verbena_watch_next(verbena_watch* watch, int timeout_ms, const char** key, verbena_change* change);
/* Ends it: who waits in verbena_watch_next gets VERBENA_CANCELLED. From any thread. */
void verbena_watch_stop(verbena_watch* watch);
/* Ends it if it has not ended, and frees it. */
void verbena_watch_end(verbena_watch* watch);

/* ---- Asynchronous calls ---- */

/* Where operations go when they are done. Many threads may start operations of one queue and take from it. */
int verbena_queue_new(verbena_queue** queue);
/* Readable while operations wait to be taken: for poll, epoll and event loops. It is the queue's: do not read or close
 * it. */
int verbena_queue_fd(const verbena_queue* queue);
/* The next operation that is done; NULL and 0 when there is none within the time. timeout_ms -1: without end. */
int verbena_queue_next(verbena_queue* queue, int timeout_ms, verbena_operation** operation);
/* Operations that are still under way end by themselves, and are freed. */
void verbena_queue_free(verbena_queue* queue);

/* Each starts an operation: it is done when verbena_queue_next hands it out, not before, and is then the caller's to
 * free. `context` is the caller's. `operation` may be NULL; what it gives serves verbena_operation_cancel alone until
 * then. Memory stays until the operation is done; names and options need to last for the call alone. Of options,
 * `cancellation` is not looked at, and with `info` the operation has one (verbena_operation_info), where that is told
 * to put NULL. When starting fails there is no operation. */
int verbena_start_get(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_get_options* options,
                      void* context, verbena_operation** operation);
int verbena_start_put(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_put_options* options,
                      void* context, verbena_operation** operation);
/* `from` is memory as any other; it stays, too. Appends to one key that lie one behind the other, of up to 2 KiB and
 * with no options, share messages by the native door while others are under way, each with its own outcome; they leave
 * in the order in which they were started. `object` gets the size of the whole as it is with these bytes at its end. */
int verbena_start_append(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const void* from, size_t size, uint64_t at, const verbena_put_options* options, void* context,
                         verbena_operation** operation);
int verbena_start_head(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                       const verbena_head_options* options, void* context, verbena_operation** operation);
int verbena_start_delete(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const verbena_delete_options* options, void* context, verbena_operation** operation);
int verbena_start_list(verbena_client* client, verbena_queue* queue, const char* bucket,
                       const verbena_list_options* options, void* context, verbena_operation** operation);

/* The operation then comes out of its queue soon, with VERBENA_CANCELLED unless it was done before. */
void verbena_operation_cancel(verbena_operation* operation);
void* verbena_operation_context(const verbena_operation* operation);
/* What the call would have returned; verbena_last_error tells why. The others may be NULL. */
int verbena_operation_result(verbena_operation* operation, uint64_t* bytes, verbena_object* object,
                             verbena_transfer* transfer);
/* The operation's own until it is freed: of get, put and head; of list. NULL where it has none. */
const verbena_info* verbena_operation_info(const verbena_operation* operation);
const verbena_page* verbena_operation_page(const verbena_operation* operation);
void verbena_operation_free(verbena_operation* operation);

#ifdef __cplusplus
}
#endif
#endif
