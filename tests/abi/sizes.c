/* The sizes and places that a caller was compiled with: tests/abi/recorded.txt has those of every release. */
#include <stddef.h>
#include <stdio.h>

#include "verbena/verbena.h"

#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(type))
#define AT(type, field) printf("offsetof %s.%s %zu\n", #type, #field, offsetof(type, field))
#define CODE(name) printf("value %s %d\n", #name, (int)name)

int main(void) {
  SIZE(verbena_error);
  AT(verbena_error, message);
  SIZE(verbena_options);
  AT(verbena_options, cleartext_rdma);
  AT(verbena_options, token_size_min);
  AT(verbena_options, encryption);
  SIZE(verbena_memory);
  AT(verbena_memory, dmabuf_offset);
  SIZE(verbena_device_memory);
  AT(verbena_device_memory, stream);
  AT(verbena_device_memory, dmabuf_offset);
  SIZE(verbena_object);
  AT(verbena_object, version_id);
  SIZE(verbena_transfer);
  AT(verbena_transfer, fell_back_reason);
  AT(verbena_transfer, device_path);
  AT(verbena_transfer, device_verified);
  SIZE(verbena_device_counters);
  AT(verbena_device_counters, read_back_bytes);
  SIZE(verbena_match_request);
  AT(verbena_match_request, lease);
  AT(verbena_match_request, join);
  SIZE(verbena_pair);
  SIZE(verbena_range);
  SIZE(verbena_get_options);
  AT(verbena_get_options, cancellation);
  AT(verbena_get_options, verify_device);
  SIZE(verbena_put_options);
  AT(verbena_put_options, cancellation);
  AT(verbena_put_options, info);
  AT(verbena_put_options, verify_device);
  SIZE(verbena_part_options);
  AT(verbena_part_options, cancellation);
  AT(verbena_part_options, info);
  SIZE(verbena_head_options);
  AT(verbena_head_options, cancellation);
  SIZE(verbena_delete_options);
  AT(verbena_delete_options, cancellation);
  SIZE(verbena_rename_options);
  AT(verbena_rename_options, cancellation);
  SIZE(verbena_bucket_options);
  SIZE(verbena_bound);
  SIZE(verbena_item);
  AT(verbena_item, content_type);
  AT(verbena_item, ttl_s);
  SIZE(verbena_item_result);
  AT(verbena_item_result, version_id);
  SIZE(verbena_lease);
  AT(verbena_lease, lease);
  SIZE(verbena_batch);
  AT(verbena_batch, context);
  AT(verbena_batch, take);
  AT(verbena_batch, verify_device);
  SIZE(verbena_list_options);
  AT(verbena_list_options, cancellation);
  SIZE(verbena_watch_options);
  AT(verbena_watch_options, cancellation);
  SIZE(verbena_change);
  AT(verbena_change, version_id);
  CODE(VERBENA_KEY_RENAMED_HERE);
  CODE(VERBENA_NO_SUCH_KEY);
  CODE(VERBENA_LOCAL_ERROR);
  CODE(VERBENA_FORKED);
  CODE(VERBENA_INSUFFICIENT_STORAGE);
  CODE(VERBENA_MEMORY_DMABUF);
  return 0;
}
