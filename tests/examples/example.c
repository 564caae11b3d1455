/* The C client library in one page. docs/client.md quotes this file; tests run it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbena/verbena.h"

#define CHECK(call)                                             \
  do {                                                          \
    if ((call) != VERBENA_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, verbena_last_error()); \
      return 1;                                                 \
    }                                                           \
  } while (0)

int main(void) {
  verbena_options options = {.struct_size = sizeof options};
  options.endpoint = getenv("AWS_ENDPOINT_URL");
  options.native_endpoint = getenv("VERBENA_NATIVE");
  options.access_key = getenv("AWS_ACCESS_KEY_ID");
  options.secret_key = getenv("AWS_SECRET_ACCESS_KEY");
  verbena_client* client = NULL;
  CHECK(verbena_connect(&options, &client));
  CHECK(verbena_make_bucket(client, "example-c", NULL));

  verbena_buffer* buffer = NULL;
  CHECK(verbena_buffer_alloc(client, 65536, &buffer));
  memset(verbena_buffer_data(buffer), 'c', verbena_buffer_size(buffer));
  verbena_put_options put = {.struct_size = sizeof put, .content_type = "text/plain"};
  CHECK(verbena_put(client, "example-c", "k", buffer, 0, 65536, &put, NULL, NULL));
  memset(verbena_buffer_data(buffer), 0, verbena_buffer_size(buffer));

  uint64_t bytes = 0;
  verbena_object object = {.struct_size = sizeof object};
  verbena_transfer transfer = {.struct_size = sizeof transfer};
  CHECK(verbena_get(client, "example-c", "k", buffer, 0, 65536, NULL, &bytes, &object, &transfer));
  if (bytes != 65536 || object.size != 65536 || ((const char*)verbena_buffer_data(buffer))[65535] != 'c') return 1;
  printf("%llu bytes by %s (%s)\n", (unsigned long long)bytes, transfer.door, transfer.provider);

  char little[4];
  const verbena_range range = {.offset = 10, .length = 4};
  verbena_get_options part = {.struct_size = sizeof part, .ranges = &range, .range_count = 1};
  CHECK(verbena_get(client, "example-c", "k", buffer, 0, 4, &part, &bytes, NULL, NULL));
  CHECK(verbena_put_bytes(client, "example-c", "little", "abcd", 4, NULL, NULL, NULL));
  CHECK(verbena_get_bytes(client, "example-c", "little", little, sizeof little, NULL, &bytes, NULL, NULL));
  if (bytes != 4 || memcmp(little, "abcd", 4) != 0) return 1;

  /* Errors are numbers, and words for people. */
  if (verbena_head(client, "example-c", "nothing", NULL, &object) != VERBENA_NO_SUCH_KEY) return 1;
  if (strlen(verbena_last_error()) == 0) return 1;
  if (verbena_get(client, "example-c", "k", buffer, 1, 65536, NULL, NULL, NULL, NULL) != VERBENA_INVALID_ARGUMENT) {
    return 1;
  }
  if (verbena_head(NULL, "b", "k", NULL, &object) != VERBENA_INVALID_ARGUMENT) return 1;

  verbena_list* list = NULL;
  CHECK(verbena_list_begin(client, "example-c", NULL, &list));
  const char* key = NULL;
  int more = 0, count = 0;
  while ((more = verbena_list_next(list, &key, &object)) > 0) {
    printf("%s %llu\n", key, (unsigned long long)object.size);
    ++count;
  }
  verbena_list_end(list);
  if (more < 0 || count != 2) return 1;

  CHECK(verbena_delete(client, "example-c", "k", NULL));
  CHECK(verbena_delete(client, "example-c", "little", NULL));
  CHECK(verbena_remove_bucket(client, "example-c"));
  verbena_buffer_free(buffer);
  verbena_close(client);
  return 0;
}
