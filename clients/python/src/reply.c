// Reply: the result of a GET, PUT or HEAD.
#include "native.h"

Reply* new_reply(void) {
  Reply* reply = (Reply*)PyType_GenericAlloc(reply_type, 0);
  if (reply == NULL) return NULL;
  reply->object.struct_size = sizeof reply->object;
  reply->transfer.struct_size = sizeof reply->transfer;
  return reply;
}

Reply* end_store(Reply* reply, int code, Memory* memory) {
  if (reply != NULL) reply->bytes = memory->size;
  if (code != VERBENA_OK) {
    raise_last(code);
    Py_CLEAR(reply);
  }
  close_memory(memory);
  return reply;
}

static void reply_dealloc(PyObject* self) {
  const Reply* reply = (const Reply*)self;
  if (reply->operation == NULL) verbena_info_free(reply->info);
  verbena_operation_free(reply->operation);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

#define REPLY ((Reply*)self)
static PyObject* get_bytes(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(REPLY->bytes);
}
static PyObject* get_size(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(REPLY->object.size);
}
static PyObject* get_modified_us(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromLongLong(REPLY->object.modified_us);
}
static PyObject* get_attempts(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(REPLY->transfer.attempts);
}

enum { text_etag, text_version, text_door, text_provider, text_reason, text_type, text_checksum, text_path, text_verified };
static PyObject* get_text(PyObject* self, void* which) {
  const char* text = "";
  switch ((intptr_t)which) {
    case text_etag: text = REPLY->object.etag; break;
    case text_version: text = REPLY->object.version_id; break;
    case text_door: text = REPLY->transfer.door; break;
    case text_provider: text = REPLY->transfer.provider; break;
    case text_reason: text = REPLY->transfer.fell_back_reason; break;
    case text_type: text = verbena_info_content_type(REPLY->info); break;
    case text_path: text = REPLY->transfer.device_path; break;
    case text_verified: text = REPLY->transfer.device_verified; break;
    case text_checksum: text = verbena_info_checksum(REPLY->info); break;
  }
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

typedef int (*PairAt)(const verbena_info* info, size_t index, verbena_pair* pair);
static PyObject* pairs_as_dict(const verbena_info* info, size_t count, PairAt at) {
  PyObject* all = PyDict_New();
  for (size_t i = 0; all != NULL && i < count; ++i) {
    verbena_pair pair;
    if (at(info, i, &pair) != VERBENA_OK) break;
    PyObject* value = PyUnicode_DecodeUTF8(pair.value, (Py_ssize_t)strlen(pair.value), "replace");
    if (value == NULL || PyDict_SetItemString(all, pair.name, value) < 0) Py_CLEAR(all);
    Py_XDECREF(value);
  }
  return all;
}

static PyObject* get_metadata(PyObject* self, void* unused) {
  (void)unused;
  return pairs_as_dict(REPLY->info, verbena_info_metadata_count(REPLY->info), verbena_info_metadata);
}

static PyObject* get_headers(PyObject* self, void* unused) {
  (void)unused;
  return pairs_as_dict(REPLY->info, verbena_info_header_count(REPLY->info), verbena_info_header);
}

static PyObject* reply_repr(PyObject* self) {
  return PyUnicode_FromFormat("<verbena.Reply %llu bytes by %s (%s)>", (unsigned long long)REPLY->bytes,
                              REPLY->transfer.door, REPLY->transfer.provider);
}

static PyGetSetDef reply_attributes[] = {
    {"bytes", get_bytes, NULL, "Bytes that were moved.", NULL},
    {"size", get_size, NULL, "Bytes of the whole object.", NULL},
    {"modified_us", get_modified_us, NULL, "When it was stored: microseconds since the Unix epoch (UTC).", NULL},
    {"etag", get_text, NULL, "Without quotes.", (void*)text_etag},
    {"version_id", get_text, NULL, "Empty when the object has none.", (void*)text_version},
    {"door", get_text, NULL, "The way the bytes went: 'native', 'token' or 'http'.", (void*)text_door},
    {"provider", get_text, NULL, "'local', 'tcp', 'verbs;ofi_rxm', 'http' or 'https'.", (void*)text_provider},
    {"device_path", get_text, NULL, "How the bytes got to, or from, a GPU: peer, direct, shared or staged; empty for host memory.", (void*)text_path},
    {"device_verified", get_text, NULL, "What checked a GPU's memory (verify_device): kernel or read_back; no_checksum: the server told none; else empty.", (void*)text_verified},
    {"fell_back_reason", get_text, NULL, "Why a faster door, or a better device_path, was passed over; empty when none was.", (void*)text_reason},
    {"content_type", get_text, NULL, "Known of HEAD, and of GET with metadata=True.", (void*)text_type},
    {"checksum", get_text, NULL, "'CRC32C:...', or empty. As content_type.", (void*)text_checksum},
    {"metadata", get_metadata, NULL, "x-amz-meta-*, names without the prefix. As content_type.", NULL},
    {"headers", get_headers, NULL, "What else is stored with it or said of it: 'cache-control', 'x-amz-expiration'. As content_type; of a PUT with describe=True.", NULL},
    {"attempts", get_attempts, NULL, "How many tries it took.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_reply_type(void) {
  static PyType_Slot slots[] = {{Py_tp_new, made_by_calls}, {Py_tp_dealloc, reply_dealloc},
                                {Py_tp_getset, reply_attributes},
                                {Py_tp_repr, reply_repr},
                                {Py_tp_doc, "What a call has to say: sizes, the ETag, and which way the bytes went."},
                                {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Reply", sizeof(Reply), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject*)PyType_FromSpec(&spec);
}
