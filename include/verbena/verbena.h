/* The C API of Verbena's client: a thin layer over client.h for other languages, in libverbena.so.0.
 *
 * Functions that can fail return 0 or a verbena_code; verbena_last_error() and verbena_error_details() then have the
 * details, for the calling thread. Handles may be used from any thread at once; a handle must not be freed while
 * another thread uses it. Strings are UTF-8 and end with a zero byte. Sizes are bytes, times microseconds since the
 * Unix epoch (UTC).
 *
 * Structures begin with their size as the caller knows it (sizeof): fields of later versions then count as zero, and
 * are not written. Zero, or NULL, is the default of every field. Enumerations may get further values.
 *
 * After a fork the child may free its copies of the parent's handles, which leaves the parent's connections alone; all
 * other calls with them fail with VERBENA_FORKED. The child may make new clients. */
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
  VERBENA_FORKED,
  VERBENA_INSUFFICIENT_STORAGE
} verbena_code;

/* ---- Errors ---- */

/* "0.1.0" */
const char* verbena_version(void);
/* "no_such_key"; "?" for an unknown number. */
const char* verbena_code_name(int code);
/* The reason why this thread's last call failed; "" if it did not. Valid until the thread's next call. */
const char* verbena_last_error(void);

typedef struct verbena_error {
  size_t struct_size;
  int code;
  int http_status;      /* 0: not from HTTP */
  char s3_code[64];     /* "NoSuchKey"; empty if S3 has no name for it */
  char request_id[128]; /* the server's, when it gave one */
  char message[1024];   /* one line for users; never holds a secret */
} verbena_error;
/* The error of this thread's last call; code 0 if it did not fail. */
void verbena_error_details(verbena_error* error);

/* ---- Traces ---- */

/* Sets the trace of this thread's further requests, a W3C traceparent; NULL: none. Batches, and requests from the
 * client's own threads, do not carry it. VERBENA_INVALID_ARGUMENT: not a traceparent. */
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
  unsigned async_threads;        /* asynchronous operations in flight if the native door is not open */
  unsigned parts_in_flight;
  uint64_t multipart_threshold; /* larger HTTP and token PUTs are split into parts */
  uint64_t part_size;
  uint64_t token_size_min;
  const char* encryption; /* of RDMA, tokens over https too: "auto", "off", "preferred", "required" */
} verbena_options;

/* `options` may be NULL. */
int verbena_connect(const verbena_options* options, verbena_client** client);
/* Waits for requests in flight. NULL is allowed, here and in every function that frees. */
void verbena_close(verbena_client* client);
/* The door that a transfer of that size would try first now: "native", "token", "http". */
const char* verbena_preferred(verbena_client* client, uint64_t size);

/* ---- Memory ---- */

typedef enum verbena_memory_kind {
  VERBENA_MEMORY_HOST = 0,
  VERBENA_MEMORY_CUDA = 1,
  VERBENA_MEMORY_ROCM = 2,
  VERBENA_MEMORY_LEVEL_ZERO = 3,
  VERBENA_MEMORY_DMABUF = 4
} verbena_memory_kind;

/* Memory of the caller, of kind VERBENA_MEMORY_HOST; or VERBENA_MEMORY_CUDA or VERBENA_MEMORY_ROCM: as
 * verbena_register_device without a stream. Every other kind gets VERBENA_UNSUPPORTED. */
typedef struct verbena_memory {
  size_t struct_size;
  void* address;
  size_t size;
  int kind;      /* a verbena_memory_kind */
  int device;    /* its number within the kind */
  int dmabuf_fd; /* of VERBENA_MEMORY_DMABUF */
  uint64_t dmabuf_offset;
} verbena_memory;

/* Memory registered for RDMA, zeroed; or the caller's own, which must outlive the handle. Buffers may outlive the
 * client. */
int verbena_buffer_alloc(verbena_client* client, size_t size, verbena_buffer** buffer);
int verbena_buffer_register(verbena_client* client, const verbena_memory* memory, verbena_buffer** buffer);
/* Memory of a device (verbena::DeviceBuffer). It serves verbena_get, verbena_put, verbena_start_get, verbena_start_put,
 * verbena_get_many, verbena_get_many_leased and verbena_put_many; verbena_buffer_data is then its address. */
typedef struct verbena_device_memory {
  size_t struct_size;
  int kind;         /* VERBENA_MEMORY_CUDA (NVIDIA), VERBENA_MEMORY_ROCM (AMD) */
  int any_device;   /* not 0: `device` is not known, and the driver is asked */
  int device;       /* its number */
  int read_only;    /* a get into it is VERBENA_INVALID_ARGUMENT */
  uint64_t address; /* as the device's driver gave it */
  uint64_t size;
  int has_stream;  /* else the caller has waited for its own work on the memory */
  uint64_t stream; /* a CUstream or hipStream_t: calls come after what it has got by then */
  int has_dmabuf;  /* RDMA devices are given a dma-buf of the caller's (verbena::DmaBuf) */
  int dmabuf_fd;   /* may be closed after the call */
  uint64_t dmabuf_offset; /* in it, of the byte at `address` */
} verbena_device_memory;
/* VERBENA_INVALID_ARGUMENT: not the device's memory, managed memory, or beyond its allocation (now, or freed when it is
 * used), or not inside its dma-buf; VERBENA_UNSUPPORTED: no driver; VERBENA_LOCAL_ERROR: the driver's answer. */
int verbena_register_device(verbena_client* client, const verbena_device_memory* memory, verbena_buffer** buffer);
void* verbena_buffer_data(const verbena_buffer* buffer);
size_t verbena_buffer_size(const verbena_buffer* buffer);
void verbena_buffer_free(verbena_buffer* buffer);

/* Transfers to and from devices that the client made since it was connected (verbena::DeviceCounters). A call is one
 * transfer, a batch too. */
typedef struct verbena_device_counters {
  size_t struct_size;
  uint64_t staged, staged_bytes; /* calls that succeeded, by their way, and their bytes */
  uint64_t shared, shared_bytes;
  uint64_t direct, direct_bytes;
  uint64_t peer, peer_bytes;
  uint64_t not_direct, not_peer, other_door; /* calls that a better way or door was not used for */
  uint64_t direct_failed, peer_failed;       /* attempts that failed, and went on by another way */
  uint64_t failed;                           /* calls */
  uint64_t verified_kernel, verified_read_back, no_checksum, mismatches; /* verify_device */
  uint64_t read_back_bytes;
} verbena_device_counters;
int verbena_count_device(verbena_client* client, verbena_device_counters* counters);

/* ---- Objects ---- */

typedef struct verbena_object {
  size_t struct_size;
  uint64_t size; /* of the whole object */
  int64_t modified_us;
  char etag[96];        /* without quotes */
  char version_id[128]; /* empty when the object has none */
} verbena_object;

/* The route of the bytes. */
typedef struct verbena_transfer {
  size_t struct_size;
  uint64_t bytes;
  unsigned attempts;
  char door[16];              /* "native", "token", "http" */
  char provider[32];          /* "local", "tcp", "verbs;ofi_rxm", "http" */
  char fell_back_reason[256]; /* empty: no faster door, or better device_path, was skipped */
  char device_path[16];       /* "staged", "shared", "direct", "peer" (verbena::DevicePath); empty: host memory */
  char device_verified[16];   /* of verify_device: "kernel", "read_back", "no_checksum"; else empty */
} verbena_transfer;

typedef struct verbena_pair {
  const char* name;
  const char* value;
} verbena_pair;

/* `length` 0: to the end. */
typedef struct verbena_range {
  uint64_t offset, length;
} verbena_range;

/* Ends the calls that use it, from another thread or a thread that handles signals, with VERBENA_CANCELLED and within
 * some 20 ms; later calls, too. Memory of a cancelled call is not touched any more once the call has returned. Whether
 * a change was made is unknown. */
int verbena_cancellation_new(verbena_cancellation** cancellation);
void verbena_cancel(verbena_cancellation* cancellation);
void verbena_cancellation_free(verbena_cancellation* cancellation); /* calls in progress may go on */

/* Options may be NULL, and so may all their pointers. ETags are without quotes, or "*". */
typedef struct verbena_get_options {
  size_t struct_size;
  const char* if_match;
  const char* if_none_match;
  const char* version_id;      /* by http or token: the native door supports versions in batches only */
  const verbena_range* ranges; /* their bytes are written consecutively, all of one version of the object */
  size_t range_count;
  verbena_info** info; /* receives the object's other metadata; to be freed. NULL on failure */
  verbena_cancellation* cancellation;
  int verify_device; /* memory of a device is checked after the bytes have come (verbena::GetOptions) */
} verbena_get_options;

typedef struct verbena_put_options {
  size_t struct_size;
  const char* content_type;
  const verbena_pair* metadata; /* x-amz-meta-*, names without the prefix */
  size_t metadata_count;
  const char* if_match;
  const char* if_none_match;
  const char* checksum; /* "CRC32C:yZRlqg==": the expected checksum; otherwise nothing is stored */
  int md5_etag;         /* make the ETag the MD5 of the bytes by every door */
  verbena_cancellation* cancellation;
  verbena_info** info; /* as in verbena_get_options: the server's headers about the new object */
  uint64_t ttl_s;      /* the object ends so many seconds after its commit, at most ten years; 0: it has no end */
  /* Stored with the object: "cache-control", "content-disposition", "content-encoding", "content-language", "expires".
   * Others are VERBENA_INVALID_ARGUMENT. */
  const verbena_pair* headers;
  size_t header_count;
  int verify_device;   /* memory of a device: without `checksum`, that of its bytes is computed from it */
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
 * VERBENA_BUFFER_TOO_SMALL when the object, or its ranges, do not fit; the memory's content is then undefined, as
 * after any other failure. */
int verbena_get(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                verbena_transfer* transfer);
int verbena_put(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);
/* Likewise with memory outside of buffers. */
int verbena_get_bytes(verbena_client* client, const char* bucket, const char* key, void* into, size_t size,
                      const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                      verbena_transfer* transfer);
int verbena_put_bytes(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                      const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);

/* Fills `into` unless the end comes first, and returns the bytes filled; negative: failure, also of the call. */
typedef int64_t (*verbena_reader)(void* context, void* into, size_t size);
/* PUT of unknown length, in bounded memory. The reader is called by one thread at a time, not always the same. */
int verbena_put_stream(verbena_client* client, const char* bucket, const char* key, verbena_reader reader,
                       void* context, const verbena_put_options* options, verbena_object* object,
                       verbena_transfer* transfer);

/* For S3 clients that delegate single requests. */
typedef struct verbena_part_options {
  size_t struct_size;
  const char* checksum; /* as in verbena_put_options, of the part */
  int md5_etag;
  verbena_cancellation* cancellation;
  verbena_info** info; /* as in verbena_put_options */
} verbena_part_options;

/* Uploads one part, number 1 to 10,000, of an upload that another client began by CreateMultipartUpload and will
 * complete: by token if possible, else over HTTP. `object` gets its size and ETag. */
int verbena_put_part(verbena_client* client, const char* bucket, const char* key, const char* upload_id,
                     unsigned number, const void* from, size_t size, const verbena_part_options* options,
                     verbena_object* object, verbena_transfer* transfer);

int verbena_head(verbena_client* client, const char* bucket, const char* key, const verbena_head_options* options,
                 verbena_object* object);
/* Succeeds for a key that does not exist, as S3 does. */
int verbena_delete(verbena_client* client, const char* bucket, const char* key, const verbena_delete_options* options);

/* Appends `size` bytes to an object in a directory bucket (or one that allows appends), which must be `at` bytes long,
 * or VERBENA_APPEND_AT_END: of any length; 0 creates the object if there is none. One change: readers see the object
 * before it or after it. Not repeated if it may have been made. `object` gets the size of the whole. The options'
 * metadata and content type apply to an append that creates the object. */
#define VERBENA_APPEND_AT_END UINT64_MAX
int verbena_append(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                   uint64_t at, const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer);

typedef struct verbena_rename_options {
  size_t struct_size;
  const char* source_if_match;
  const char* if_match;      /* of the object at the new name */
  const char* if_none_match; /* "*": there must be none */
  const char* token;         /* 1 to 64 visible characters: a repeated rename with it is not made again */
  verbena_cancellation* cancellation;
} verbena_rename_options;
/* Renames an object of a directory bucket: atomic, without copying bytes. Replaces an object of the new name. */
int verbena_rename(verbena_client* client, const char* bucket, const char* from, const char* to,
                   const verbena_rename_options* options);

/* Metadata of an object besides verbena_object. Strings are valid until the info is freed. */
const char* verbena_info_content_type(const verbena_info* info);
const char* verbena_info_checksum(const verbena_info* info); /* "CRC32C:yZRlqg=="; "" if unknown */
size_t verbena_info_metadata_count(const verbena_info* info);
/* VERBENA_INVALID_ARGUMENT past the end. */
int verbena_info_metadata(const verbena_info* info, size_t index, verbena_pair* pair);
/* Other headers stored with the object or describing it, lower-case names: "cache-control",
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

/* A bucket with a bound on its objects or bytes evicts instead of refusing writes: for caches. */
typedef struct verbena_bound {
  size_t struct_size;
  uint64_t bytes_max, objects_max; /* 0: not limited */
  char policy[16];                 /* "s3-fifo" (as ""), "lru" or "ttl"; verbena_get_bound: "" for no bound */
  int renew_on_read;               /* a read renews the TTL of its object */
  int keep_none;                   /* evict those of `keep_suffix`, too */
  char keep_suffix[132]; /* a few objects with such keys are not evicted; "": as "/namespace.json" */
} verbena_bound;
/* Replaces the bound; NULL removes it. */
int verbena_set_bound(verbena_client* client, const char* bucket, const verbena_bound* bound);
int verbena_get_bound(verbena_client* client, const char* bucket, verbena_bound* bound);

/* ---- Batches ---- */

/* Up to 4,096 objects in one call, each with an outcome of its own (verbena::Client::get_many and its like). */
typedef struct verbena_item {
  size_t struct_size; /* the same for all items of a batch */
  const char* bucket;
  const char* key;
  size_t window, offset, size; /* get, put: the bytes are [offset, offset + size) of that buffer */
  uint64_t range_first;        /* get: with range_length or range_first above 0 a range; length 0: to the end */
  uint64_t range_length;
  const char* version_id; /* all of these may be NULL */
  const char* if_match;
  const char* if_none_match;
  const char* content_type; /* put */
  uint64_t ttl_s;           /* put: as in verbena_put_options */
} verbena_item;

typedef struct verbena_item_result {
  int code;       /* 0 or a verbena_code */
  uint64_t bytes; /* delivered or stored */
  uint64_t size;  /* of the whole object */
  int64_t modified_us;
  char etag[96];
  char version_id[128];
} verbena_item_result;

/* A lease of what a batch finds, as that of a match: by the native door alone. Each item without an error and without a
 * version is held; one for which there is no room is VERBENA_SLOW_DOWN. */
typedef struct verbena_lease {
  size_t struct_size;
  uint64_t ms;    /* how long: at most a minute counts */
  uint64_t lease; /* a lease that it joins; 0: a new one. Filled: its number; 0: nothing was found, or no leases */
} verbena_lease;

typedef struct verbena_batch {
  size_t struct_size;
  const verbena_item* items; /* each struct_size of the first apart */
  size_t count;
  verbena_buffer* const* windows; /* at most 6; none for head and delete */
  size_t window_count;
  verbena_item_result* results; /* `count` of them, each result_size apart */
  size_t result_size;           /* sizeof(verbena_item_result) */
  /* get: called with the number of leading items that have arrived, each time that it grows. May be NULL. Must not
   * call the client. */
  void (*in_order)(void* context, size_t leading);
  void* context;
  verbena_lease* take; /* get, head. May be NULL */
  int verify_device;   /* get: items on a device are checked, at the end of the call (verbena::BatchOptions) */
} verbena_batch;

/* 0 when every item has its result; else the outcome of items without a code is unknown. */
int verbena_get_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_head_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_put_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);
int verbena_delete_many(verbena_client* client, const verbena_batch* batch, verbena_transfer* transfer);

/* How many leading keys of each list exist and may be read (verbena::Client::match). A key is the namespace, a slash
 * and the hash in lower-case hexadecimal. */
typedef struct verbena_match_request {
  size_t struct_size;
  const char* bucket;
  const char* name_space; /* NULL or empty: the keys are the hashes alone */
  const void* hashes;     /* of all lists, one after the other */
  size_t hashes_size;     /* bytes */
  size_t width;           /* of a hash: 16 or 32 */
  const uint32_t* counts; /* keys of each list, at least one; at most 65,536 together */
  size_t lists;
  uint64_t lease_ms; /* keeps what was found for so long; 0: no lease */
  /* Filled. `leading` and `codes` have an element for each list: how many leading keys count, and why the next one does
   * not (a verbena_code; 0: all of them do). `sizes` and `places` have one for each key, and may be NULL: those of keys
   * that count are set. */
  uint32_t* leading;
  int* codes;
  uint64_t* sizes;
  unsigned char* places; /* 0 unknown, 1 memory, 2 disk */
  uint64_t lease;        /* 0: none */
  uint64_t join;         /* not filled: a lease of this client that takes in what is found; 0: a new one */
} verbena_match_request;
int verbena_match(verbena_client* client, verbena_match_request* request, verbena_transfer* transfer);
/* verbena_get_many of the versions that a lease holds; other keys, and all if it has ended, as they are now. Another
 * client of the same account reads by the lease, too, if it is connected to the same core of the server. */
int verbena_get_many_leased(verbena_client* client, const verbena_batch* batch, uint64_t lease,
                            verbena_transfer* transfer);
/* Ends a lease before its time. Succeeds for one that has ended. */
int verbena_end_lease(verbena_client* client, uint64_t lease);

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

/* One page of a listing. Its strings are valid until it is freed. */
int verbena_list_page(verbena_client* client, const char* bucket, const verbena_list_options* options,
                      verbena_page** page);
/* The names of all buckets, as the keys of a page; modified_us is the time of creation. */
int verbena_buckets(verbena_client* client, verbena_page** page);
size_t verbena_page_count(const verbena_page* page);
/* The key, NULL past the end. `object` may be NULL. */
const char* verbena_page_object(const verbena_page* page, size_t index, verbena_object* object);
size_t verbena_page_prefix_count(const verbena_page* page);
const char* verbena_page_prefix(const verbena_page* page, size_t index); /* NULL past the end */
const char* verbena_page_continuation(const verbena_page* page);         /* NULL: the last page */
void verbena_page_free(verbena_page* page);

/* All keys of a listing, walked with verbena_list_next: 1 for an object (`key` is valid until the next call on the
 * list), 0 at the end, a negative verbena_code on failure. Prefixes of a delimiter are left out. */
int verbena_list_begin(verbena_client* client, const char* bucket, const verbena_list_options* options,
                       verbena_list** list);
int verbena_list_next(verbena_list* list, const char** key, verbena_object* object);
void verbena_list_end(verbena_list* list);

/* ---- Watches ---- */

/* A change of a key. The numbers of verbena::KeyEvent. */
typedef enum verbena_key_event {
  VERBENA_KEY_CREATED = 1,      /* a new object: put, copied, completed */
  VERBENA_KEY_APPENDED = 2,     /* bytes were added at its end */
  VERBENA_KEY_REMOVED = 3,      /* the object is gone, or the named version */
  VERBENA_KEY_MARKED = 4,       /* a delete marker is the newest version */
  VERBENA_KEY_CHANGED = 5,      /* tags, access list, lock: the bytes are the same */
  VERBENA_KEY_RENAMED_AWAY = 6, /* it has another key now */
  VERBENA_KEY_RENAMED_HERE = 7, /* it came from another key */
  VERBENA_KEY_EVICTED = 8       /* removed to make room in a bounded bucket */
} verbena_key_event;
/* "created", "renamed_away"; "?" for an unknown number. */
const char* verbena_key_event_name(int what);

typedef struct verbena_watch_options {
  size_t struct_size;
  const char* prefix;                 /* NULL: all keys */
  verbena_cancellation* cancellation; /* of verbena_watch_begin alone */
} verbena_watch_options;

typedef struct verbena_change {
  size_t struct_size;
  int what;             /* a verbena_key_event */
  uint64_t size;        /* of the current object */
  int64_t time_us;      /* when the current object was written; or when it was removed */
  uint64_t number;      /* within one watch: grows with each change */
  char etag[96];        /* empty if no object is left */
  char version_id[128]; /* in buckets with versions, for callers that may list them */
} verbena_change;

enum { VERBENA_WATCH_NOTHING = 0, VERBENA_WATCH_CHANGE = 1, VERBENA_WATCH_GAP = 2 };

/* Reports changes of the keys under a prefix, by the native door only (VERBENA_UNSUPPORTED by others). */
int verbena_watch_begin(verbena_client* client, const char* bucket, const verbena_watch_options* options,
                        verbena_watch** watch);
/* Waits for a change, at most `timeout_ms` (-1: without end): VERBENA_WATCH_CHANGE, with the key, valid until the next
 * call on the watch, and `change`, which may be NULL; VERBENA_WATCH_GAP: changes were missed, and cached data of keys
 * under the prefix is invalid; VERBENA_WATCH_NOTHING; or a negative verbena_code. After VERBENA_CONNECTION_FAILED or
 * VERBENA_SLOW_DOWN the call may be repeated. One thread at a time. */
int verbena_watch_next(verbena_watch* watch, int timeout_ms, const char** key, verbena_change* change);
/* Ends it: a call that waits in verbena_watch_next returns VERBENA_CANCELLED. From any thread. */
void verbena_watch_stop(verbena_watch* watch);
/* Ends it unless it has ended, and frees it. */
void verbena_watch_end(verbena_watch* watch);

/* ---- Asynchronous calls ---- */

/* A queue of completed operations. Many threads may start operations of one queue and take from it. */
int verbena_queue_new(verbena_queue** queue);
/* A descriptor that is readable while completed operations wait: for poll, epoll and event loops. Owned by the queue:
 * do not read or close it. */
int verbena_queue_fd(const verbena_queue* queue);
/* The next completed operation; NULL and 0 if there is none within the time. timeout_ms -1: without end. */
int verbena_queue_next(verbena_queue* queue, int timeout_ms, verbena_operation** operation);
/* Operations still in progress end by themselves, and are freed. */
void verbena_queue_free(verbena_queue* queue);

/* Each starts an operation: it is complete when verbena_queue_next returns it, not before; the caller then frees it.
 * `context` is the caller's. `operation` may be NULL; until completion its handle may only be used for
 * verbena_operation_cancel. Memory must stay valid until the operation is complete; names and options only during the
 * call. The options' `cancellation` is ignored; with `info`, the operation has one (verbena_operation_info), and NULL
 * is stored there. If starting fails there is no operation. */
int verbena_start_get(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_get_options* options,
                      void* context, verbena_operation** operation);
int verbena_start_put(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                      verbena_buffer* buffer, size_t offset, size_t size, const verbena_put_options* options,
                      void* context, verbena_operation** operation);
/* `from` must stay valid, too. Appends to consecutive positions of one key, of up to 2 KiB and without options, share
 * messages by the native door while others are in flight, each with its own outcome; they are sent in the order in
 * which they were started. `object` gets the size of the whole including these bytes. */
int verbena_start_append(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const void* from, size_t size, uint64_t at, const verbena_put_options* options, void* context,
                         verbena_operation** operation);
int verbena_start_head(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                       const verbena_head_options* options, void* context, verbena_operation** operation);
int verbena_start_delete(verbena_client* client, verbena_queue* queue, const char* bucket, const char* key,
                         const verbena_delete_options* options, void* context, verbena_operation** operation);
int verbena_start_list(verbena_client* client, verbena_queue* queue, const char* bucket,
                       const verbena_list_options* options, void* context, verbena_operation** operation);

/* The operation then completes soon, with VERBENA_CANCELLED unless it was complete before. */
void verbena_operation_cancel(verbena_operation* operation);
void* verbena_operation_context(const verbena_operation* operation);
/* The result of the call; verbena_last_error has the reason of a failure. The others may be NULL. */
int verbena_operation_result(verbena_operation* operation, uint64_t* bytes, verbena_object* object,
                             verbena_transfer* transfer);
/* Owned by the operation until it is freed: of get, put and head; of list. NULL if it has none. */
const verbena_info* verbena_operation_info(const verbena_operation* operation);
const verbena_page* verbena_operation_page(const verbena_operation* operation);
void verbena_operation_free(verbena_operation* operation);

#ifdef __cplusplus
}
#endif
#endif
