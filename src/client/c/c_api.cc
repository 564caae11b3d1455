// include/verbena/verbena.h over include/verbena/client.h: clients, memory, single objects. No exception leaves them.
#include "client/c/c_api.h"
#include "client/trace_scope.h"

namespace {

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;
using verbena::client::fault;

Outcome<verbena::ClientOptions> client_options(const verbena_options& given) {
  verbena::ClientOptions out;
  const auto set = [](std::string& field, const char* value) {
    if (value != nullptr) field = value;
  };
  set(out.endpoint, given.endpoint);
  set(out.native_endpoint, given.native_endpoint);
  set(out.access_key, given.access_key);
  set(out.secret_key, given.secret_key);
  set(out.session_token, given.session_token);
  set(out.region, given.region);
  set(out.provider, given.provider);
  set(out.ca_file, given.ca_file);
  set(out.encryption, given.encryption);
  out.insecure = given.insecure != 0;
  out.cleartext_rdma = given.cleartext_rdma != 0;
  out.sign_payload = given.unsigned_payload == 0;
  out.verify_checksums = given.unverified_checksums == 0;
  const auto number = [](auto& field, auto value) {
    if (value != 0) field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  };
  constexpr uint64_t year_ms = 31'536'000'000;
  number(out.connect_timeout, std::min(given.connect_timeout_ms, year_ms));
  number(out.operation_timeout, std::min(given.operation_timeout_ms, year_ms));
  number(out.attempts_max, given.attempts_max);
  number(out.connections_max, given.connections_max);
  number(out.async_threads, given.async_threads);
  number(out.parts_in_flight, given.parts_in_flight);
  number(out.multipart_threshold, given.multipart_threshold);
  number(out.part_size, given.part_size);
  number(out.token_size_min, given.token_size_min);
  if (given.via != nullptr) {
    auto via = verbena::parse_via(given.via);
    if (!via) return fault(ErrorCode::invalid_argument, "via: auto, native, token or http");
    out.via = *via;
  }
  return out;
}

template <class... Pointer>
Outcome<> all_there(Pointer... pointers) {
  if (((pointers == nullptr) || ...)) return null_argument();
  return {};
}

Outcome<> finish_get(verbena::GetReply got, const GetRequest& request, uint64_t* bytes, verbena_object* object,
                     verbena_transfer* transfer) {
  if (bytes != nullptr) *bytes = got.bytes;
  fill(object, got.info);
  fill(transfer, got.transfer);
  if (request.info != nullptr) *request.info = make_info(std::move(got.info));
  return {};
}

Outcome<> finish_put(Outcome<verbena::PutReply> put, const PutRequest& request, verbena_object* object,
                     verbena_transfer* transfer) {
  if (!put) return std::unexpected(std::move(put).error());
  fill(object, *put);
  fill(transfer, put->transfer);
  if (request.info != nullptr) *request.info = make_info(*put);
  return {};
}

std::unexpected<verbena::ClientError> no_such_memory(int kind) {
  return fault(ErrorCode::unsupported, "memory of kind " + std::to_string(kind) + ": host, cuda and rocm are served");
}

// Empty: it is no memory of a device.
std::optional<verbena::DeviceKind> device_kind(int kind) {
  if (kind == VERBENA_MEMORY_CUDA) return verbena::DeviceKind::cuda;
  if (kind == VERBENA_MEMORY_ROCM) return verbena::DeviceKind::rocm;
  return std::nullopt;
}

Outcome<> pair_at(const std::vector<verbena_pair>& pairs, size_t index, verbena_pair* pair) {
  OUT_TRY(all_there(pair));
  if (index >= pairs.size()) return fault(ErrorCode::invalid_argument, "there are fewer");
  *pair = pairs[index];
  return {};
}

verbena::Reader reader_of(verbena_reader reader, void* context) {
  return [=](std::span<std::byte> into) -> Outcome<size_t> {
    const int64_t filled = reader(context, into.data(), into.size());
    if (filled < 0) return fault(ErrorCode::local_error, "the reader failed");
    return static_cast<size_t>(filled);
  };
}

}  // namespace

extern "C" {

const char* verbena_version(void) { return VERBENA_VERSION; }
const char* verbena_last_error(void) { return last_error.message.c_str(); }

const char* verbena_code_name(int code) {
  if (code == VERBENA_OK) return "ok";
  if (code < 0 || code > VERBENA_INSUFFICIENT_STORAGE) return "?";
  return verbena::to_string(static_cast<ErrorCode>(code)).data();
}

void verbena_error_details(verbena_error* error) {
  if (error == nullptr || !fillable(error)) return;
  verbena_error made{};
  made.code = static_cast<int>(last_error.code);
  if (made.code != 0) {
    made.http_status = last_error.http_status;
    copy_text(made.s3_code, last_error.s3_code);
    copy_text(made.request_id, last_error.request_id);
    copy_text(made.message, last_error.message);
  }
  give(error, made);
}

int verbena_trace(const char* traceparent) {
  return guarded([&]() -> Outcome<> {
    if (verbena::client::set_thread_trace(traceparent == nullptr ? "" : traceparent)) return {};
    return fault(ErrorCode::invalid_argument, "this is no traceparent");
  });
}

int verbena_connect(const verbena_options* options, verbena_client** client) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client));
    *client = nullptr;
    OUT_ASSIGN(const verbena_options given, known(options));
    OUT_ASSIGN(auto made, client_options(given));
    OUT_ASSIGN(auto connected, verbena::Client::connect(std::move(made)));
    *client = new verbena_client{std::move(connected)};
    return {};
  });
}

void verbena_close(verbena_client* client) { delete client; }

const char* verbena_preferred(verbena_client* client, uint64_t size) {
  return client == nullptr ? "" : verbena::to_string(client->client.preferred(size)).data();
}

int verbena_buffer_alloc(verbena_client* client, size_t size, verbena_buffer** buffer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, buffer));
    OUT_ASSIGN(auto made, client->client.allocate(size));
    *buffer = new verbena_buffer{std::move(made)};
    return {};
  });
}

int verbena_buffer_register(verbena_client* client, const verbena_memory* memory, verbena_buffer** buffer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, memory, buffer));
    OUT_ASSIGN(const verbena_memory given, known(memory));
    if (const auto kind = device_kind(given.kind)) {
      const verbena::DeviceBuffer device{.kind = *kind,
                                         .address = reinterpret_cast<uintptr_t>(given.address),
                                         .size = given.size,
                                         .device = given.device};
      OUT_ASSIGN(auto made, client->client.register_memory(device));
      *buffer = new verbena_buffer{std::move(made)};
      return {};
    }
    if (given.kind != VERBENA_MEMORY_HOST) return no_such_memory(given.kind);
    OUT_ASSIGN(auto made, client->client.register_memory(given.address, given.size));
    *buffer = new verbena_buffer{std::move(made)};
    return {};
  });
}

int verbena_register_device(verbena_client* client, const verbena_device_memory* memory, verbena_buffer** buffer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, memory, buffer));
    OUT_ASSIGN(const verbena_device_memory given, known(memory));
    const auto kind = device_kind(given.kind);
    if (!kind) return no_such_memory(given.kind);
    verbena::DeviceBuffer device{
        .kind = *kind, .address = given.address, .size = given.size, .read_only = given.read_only != 0};
    if (given.any_device == 0) device.device = given.device;
    if (given.has_stream != 0) device.stream = given.stream;
    if (given.has_dmabuf != 0) device.dma_buf = verbena::DmaBuf{given.dmabuf_fd, given.dmabuf_offset};
    OUT_ASSIGN(auto made, client->client.register_memory(device));
    *buffer = new verbena_buffer{std::move(made)};
    return {};
  });
}

int verbena_count_device(verbena_client* client, verbena_device_counters* counters) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || counters == nullptr) return null_argument();
    OUT_TRY(fillable(counters));
    const verbena::DeviceCounters now = client->client.device_counters();
    verbena_device_counters made{};
    made.staged = now.staged.transfers;
    made.staged_bytes = now.staged.bytes;
    made.shared = now.shared.transfers;
    made.shared_bytes = now.shared.bytes;
    made.direct = now.direct.transfers;
    made.direct_bytes = now.direct.bytes;
    made.peer = now.peer.transfers;
    made.peer_bytes = now.peer.bytes;
    made.not_direct = now.not_direct;
    made.not_peer = now.not_peer;
    made.other_door = now.other_door;
    made.direct_failed = now.direct_failed;
    made.peer_failed = now.peer_failed;
    made.failed = now.failed;
    made.verified_kernel = now.verified_kernel;
    made.verified_read_back = now.verified_read_back;
    made.no_checksum = now.no_checksum;
    made.mismatches = now.mismatches;
    made.read_back_bytes = now.read_back_bytes;
    give(counters, made);
    return {};
  });
}

void* verbena_buffer_data(const verbena_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->buffer.data(); }
size_t verbena_buffer_size(const verbena_buffer* buffer) { return buffer == nullptr ? 0 : buffer->buffer.size(); }
void verbena_buffer_free(verbena_buffer* buffer) { delete buffer; }

int verbena_cancellation_new(verbena_cancellation** cancellation) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(cancellation));
    *cancellation = new verbena_cancellation{};
    return {};
  });
}
void verbena_cancel(verbena_cancellation* cancellation) {
  if (cancellation != nullptr) cancellation->source.request_stop();
}
void verbena_cancellation_free(verbena_cancellation* cancellation) { delete cancellation; }

int verbena_get(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key, buffer));
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const GetRequest request, get_request(options));
    OUT_ASSIGN(const auto into, part_of(buffer, offset, size));
    OUT_ASSIGN(auto got, request.ranges.empty()
                             ? client->client.get(bucket, key, into, request.options)
                             : client->client.get_ranges(bucket, key, request.ranges, into, request.options));
    return finish_get(std::move(got), request, bytes, object, transfer);
  });
}

int verbena_get_bytes(verbena_client* client, const char* bucket, const char* key, void* into, size_t size,
                      const verbena_get_options* options, uint64_t* bytes, verbena_object* object,
                      verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key));
    if (into == nullptr && size > 0) return null_argument();
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const GetRequest request, get_request(options));
    const std::span<std::byte> memory(static_cast<std::byte*>(into), size);
    if (request.ranges.empty()) {
      OUT_ASSIGN(auto got, client->client.get(bucket, key, memory, request.options));
      return finish_get(std::move(got), request, bytes, object, transfer);
    }
    OUT_ASSIGN(const auto buffer, client->client.register_memory(into, size));
    OUT_ASSIGN(auto got, client->client.get_ranges(bucket, key, request.ranges, buffer, request.options));
    return finish_get(std::move(got), request, bytes, object, transfer);
  });
}

int verbena_put(verbena_client* client, const char* bucket, const char* key, verbena_buffer* buffer, size_t offset,
                size_t size, const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key, buffer));
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const auto request, put_request(options));
    OUT_ASSIGN(const auto from, part_of(buffer, offset, size));
    return finish_put(client->client.put(bucket, key, from, request.options), request, object, transfer);
  });
}

int verbena_put_bytes(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                      const verbena_put_options* options, verbena_object* object, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key));
    if (from == nullptr && size > 0) return null_argument();
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const auto request, put_request(options));
    const std::span<const std::byte> memory(static_cast<const std::byte*>(from), size);
    return finish_put(client->client.put(bucket, key, memory, request.options), request, object, transfer);
  });
}

int verbena_put_stream(verbena_client* client, const char* bucket, const char* key, verbena_reader reader,
                       void* context, const verbena_put_options* options, verbena_object* object,
                       verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key, reader));
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const auto request, put_request(options));
    return finish_put(client->client.put_stream(bucket, key, reader_of(reader, context), request.options), request,
                      object, transfer);
  });
}

int verbena_head(verbena_client* client, const char* bucket, const char* key, const verbena_head_options* options,
                 verbena_object* object) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key));
    OUT_TRY(fillable(object));
    OUT_ASSIGN(const HeadRequest request, head_request(options));
    OUT_ASSIGN(auto info, client->client.head(bucket, key, request.options));
    fill(object, info);
    if (request.info != nullptr) *request.info = make_info(std::move(info));
    return {};
  });
}

int verbena_delete(verbena_client* client, const char* bucket, const char* key, const verbena_delete_options* options) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key));
    OUT_ASSIGN(const auto request, delete_request(options));
    return client->client.remove(bucket, key, request);
  });
}

int verbena_append(verbena_client* client, const char* bucket, const char* key, const void* from, size_t size,
                   uint64_t at, const verbena_put_options* options, verbena_object* object,
                   verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, key));
    if (from == nullptr && size > 0) return null_argument();
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(auto request, put_request(options));
    request.options.append_at = at;
    const std::span<const std::byte> memory(static_cast<const std::byte*>(from), size);
    return finish_put(client->client.put(bucket, key, memory, request.options), request, object, transfer);
  });
}

int verbena_rename(verbena_client* client, const char* bucket, const char* from, const char* to,
                   const verbena_rename_options* options) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, from, to));
    OUT_ASSIGN(const auto request, rename_request(options));
    return client->client.rename(bucket, from, to, request);
  });
}

const char* verbena_info_content_type(const verbena_info* info) {
  return info == nullptr ? "" : info->info.content_type.c_str();
}
const char* verbena_info_checksum(const verbena_info* info) {
  return info == nullptr ? "" : info->info.checksum.c_str();
}
size_t verbena_info_metadata_count(const verbena_info* info) { return info == nullptr ? 0 : info->metadata.size(); }
size_t verbena_info_header_count(const verbena_info* info) { return info == nullptr ? 0 : info->headers.size(); }
int verbena_info_metadata(const verbena_info* info, size_t index, verbena_pair* pair) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(info));
    return pair_at(info->metadata, index, pair);
  });
}
int verbena_info_header(const verbena_info* info, size_t index, verbena_pair* pair) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(info));
    return pair_at(info->headers, index, pair);
  });
}
void verbena_info_free(verbena_info* info) { delete info; }

int verbena_make_bucket(verbena_client* client, const char* bucket, const verbena_bucket_options* options) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket));
    OUT_ASSIGN(const verbena_bucket_options given, known(options));
    using verbena::BucketDurability;
    return client->client.make_bucket(bucket, given.memory != 0 ? BucketDurability::memory : BucketDurability::sync);
  });
}

int verbena_remove_bucket(verbena_client* client, const char* bucket) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket));
    return client->client.remove_bucket(bucket);
  });
}

int verbena_set_bound(verbena_client* client, const char* bucket, const verbena_bound* bound) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket));
    if (bound == nullptr) return client->client.remove_bound(bucket);
    OUT_ASSIGN(const verbena_bound given, known(bound));
    verbena::BucketBound wanted{.bytes_max = given.bytes_max, .objects_max = given.objects_max};
    const size_t named = strnlen(given.policy, sizeof given.policy);
    if (named != 0) wanted.policy.assign(given.policy, named);
    wanted.renew_on_read = given.renew_on_read != 0;
    const size_t kept = strnlen(given.keep_suffix, sizeof given.keep_suffix);
    if (kept != 0) wanted.keep_suffix.assign(given.keep_suffix, kept);
    if (given.keep_none != 0) wanted.keep_suffix.clear();
    return client->client.set_bound(bucket, wanted);
  });
}

int verbena_get_bound(verbena_client* client, const char* bucket, verbena_bound* bound) {
  return guarded([&]() -> Outcome<> {
    OUT_TRY(all_there(client, bucket, bound));
    OUT_TRY(fillable(bound));
    OUT_ASSIGN(const std::optional<verbena::BucketBound> found, client->client.bound(bucket));
    verbena_bound out{};
    if (found) {
      out.bytes_max = found->bytes_max;
      out.objects_max = found->objects_max;
      copy_text(out.policy, found->policy);
      out.renew_on_read = found->renew_on_read ? 1 : 0;
      copy_text(out.keep_suffix, found->keep_suffix);
      out.keep_none = found->keep_suffix.empty() ? 1 : 0;
    }
    give(bound, out);
    return {};
  });
}

}  // extern "C"
