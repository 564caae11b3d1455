// include/verbena/verbena.h over include/verbena/client.h. No exception leaves these functions.
#include "client/c_api.h"

namespace {

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;

Outcome<verbena::Buffer> part_of(const verbena_buffer* buffer, size_t offset, size_t size) {
  verbena::Buffer part = buffer->buffer.slice(offset, size);
  if (!part) return verbena::client::fault(ErrorCode::invalid_argument, "offset and size lie outside the buffer");
  return part;
}

void finish_get(const verbena::GetReply& got, uint64_t* bytes, verbena_object* object, verbena_transfer* transfer) {
  if (bytes != nullptr) *bytes = got.bytes;
  fill(object, got.info);
  fill(transfer, got.transfer);
}

}  // namespace

extern "C" {

const char* verbena_version(void) { return VERBENA_VERSION; }
const char* verbena_last_error(void) { return last_error.c_str(); }

int verbena_connect(const verbena_options* options, verbena_client** client) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr) return null_argument();
    *client = nullptr;
    verbena::ClientOptions made;
    const auto set = [](std::string& field, const char* value) {
      if (value != nullptr) field = value;
    };
    if (options != nullptr) {
      set(made.endpoint, options->endpoint);
      set(made.native_endpoint, options->native_endpoint);
      set(made.access_key, options->access_key);
      set(made.secret_key, options->secret_key);
      set(made.session_token, options->session_token);
      set(made.region, options->region);
      set(made.ca_file, options->ca_file);
      made.insecure = options->insecure != 0;
      made.cleartext_rdma = options->cleartext_rdma != 0;
      if (options->via != nullptr) {
        auto via = verbena::parse_via(options->via);
        if (!via) return verbena::client::fault(ErrorCode::invalid_argument, "via: auto, native, token or http");
        made.via = *via;
      }
    }
    OUT_ASSIGN(auto connected, verbena::Client::connect(std::move(made)));
    *client = new verbena_client{std::move(connected)};
    return {};
  });
}

void verbena_close(verbena_client* client) { delete client; }

int verbena_buffer_alloc(verbena_client* client, size_t size, verbena_buffer** buffer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(auto made, client->client.allocate(size));
    *buffer = new verbena_buffer{std::move(made)};
    return {};
  });
}

int verbena_buffer_register(verbena_client* client, void* data, size_t size, verbena_buffer** buffer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(auto made, client->client.register_memory(data, size));
    *buffer = new verbena_buffer{std::move(made)};
    return {};
  });
}

void* verbena_buffer_data(const verbena_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->buffer.data(); }
size_t verbena_buffer_size(const verbena_buffer* buffer) { return buffer == nullptr ? 0 : buffer->buffer.size(); }
void verbena_buffer_free(verbena_buffer* buffer) { delete buffer; }

int verbena_get(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, uint64_t* bytes, verbena_object* object, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(const auto into, part_of(buffer, offset, size));
    OUT_ASSIGN(const auto got, client->client.get(bucket, key, into));
    finish_get(got, bytes, object, transfer);
    return {};
  });
}

int verbena_get_range(verbena_client* client, const char* bucket, const char* key, uint64_t first, uint64_t length,
                      verbena_buffer* buffer, size_t offset, size_t size, uint64_t* bytes, verbena_object* object,
                      verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(const auto into, part_of(buffer, offset, size));
    verbena::GetOptions options;
    options.range = verbena::Range{first, length};
    OUT_ASSIGN(const auto got, client->client.get(bucket, key, into, options));
    finish_get(got, bytes, object, transfer);
    return {};
  });
}

int verbena_put(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const char* content_type, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || buffer == nullptr) return null_argument();
    OUT_ASSIGN(const auto from, part_of(buffer, offset, size));
    verbena::PutOptions options;
    options.content_type = text(content_type);
    OUT_ASSIGN(const auto put, client->client.put(bucket, key, from, options));
    fill(transfer, put.transfer);
    return {};
  });
}

int verbena_get_bytes(verbena_client* client, const char* bucket, const char* key, void* into, size_t size,
                      uint64_t* bytes, verbena_object* object, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || (into == nullptr && size > 0)) {
      return null_argument();
    }
    const std::span<std::byte> memory(static_cast<std::byte*>(into), size);
    OUT_ASSIGN(const auto got, client->client.get(bucket, key, memory));
    finish_get(got, bytes, object, transfer);
    return {};
  });
}

int verbena_put_bytes(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                      const char* content_type, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || (from == nullptr && size > 0)) {
      return null_argument();
    }
    const std::span<const std::byte> memory(static_cast<const std::byte*>(from), size);
    verbena::PutOptions options;
    options.content_type = text(content_type);
    OUT_ASSIGN(const auto put, client->client.put(bucket, key, memory, options));
    fill(transfer, put.transfer);
    return {};
  });
}

int verbena_head(verbena_client* client, const char* bucket, const char* key, verbena_object* object) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr) return null_argument();
    OUT_ASSIGN(const auto info, client->client.head(bucket, key));
    fill(object, info);
    return {};
  });
}

int verbena_delete(verbena_client* client, const char* bucket, const char* key) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr) return null_argument();
    return client->client.remove(bucket, key);
  });
}

int verbena_make_bucket(verbena_client* client, const char* bucket) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr) return null_argument();
    return client->client.make_bucket(bucket);
  });
}

int verbena_remove_bucket(verbena_client* client, const char* bucket) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr) return null_argument();
    return client->client.remove_bucket(bucket);
  });
}

int verbena_list_begin(verbena_client* client, const char* bucket, const char* prefix, verbena_list** list) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || list == nullptr) return null_argument();
    verbena::ListOptions options;
    options.prefix = text(prefix);
    *list = new verbena_list{client->client, bucket, std::move(options), {}, 0, false};
    return {};
  });
}

int verbena_list_next(verbena_list* list, const char** key, verbena_object* object) {
  bool found = false;
  const int code = guarded([&]() -> Outcome<> {
    if (list == nullptr || key == nullptr) return null_argument();
    while (list->next == list->page.objects.size()) {
      if (list->started && !list->page.truncated) return {};
      list->options.continuation = list->page.continuation;
      OUT_ASSIGN(list->page, list->client.list(list->bucket, list->options));
      list->started = true;
      list->next = 0;
    }
    const verbena::ObjectInfo& info = list->page.objects[list->next++];
    *key = info.key.c_str();
    fill(object, info);
    found = true;
    return {};
  });
  return code != VERBENA_OK ? -code : (found ? 1 : 0);
}

void verbena_list_end(verbena_list* list) { delete list; }

}  // extern "C"
