// Parts of uploads begun by another S3 client.
#include "native.h"

PyObject* client_put_part(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static char* names[] = {"bucket", "key", "upload_id", "number", "data", "checksum", "md5_etag", "describe", NULL};
  const char *bucket, *key, *upload_id;
  unsigned number = 0;
  int describe = 0;
  PyObject* data;
  verbena_part_options options = {.struct_size = sizeof options};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sssIO|$zpp:put_part", names, &bucket, &key, &upload_id, &number, &data,
                                   &options.checksum, &options.md5_etag, &describe)) {
    return NULL;
  }
  verbena_client* used = begin_use((Client*)self);
  if (used == NULL) return NULL;
  Memory memory;
  Reply* reply = NULL;
  if (open_memory(&memory, data, false)) {
    reply = new_reply();
    int code = VERBENA_OK;
    if (reply != NULL) {
      options.cancellation = ((Client*)self)->cancellation;
      if (describe) options.info = &reply->info;
      Py_BEGIN_ALLOW_THREADS
      code = verbena_put_part(used, bucket, key, upload_id, number, memory.data, memory.size, &options, &reply->object,
                              &reply->transfer);
      Py_END_ALLOW_THREADS
    }
    reply = end_store(reply, code, &memory);
  }
  end_use((Client*)self, used);
  return (PyObject*)reply;
}
