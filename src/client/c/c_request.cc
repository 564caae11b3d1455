// Conversion of the C API's options to the client's.
#include "client/c/c_api.h"

namespace verbena::c_api {

using verbena::client::fault;

namespace {

std::stop_token token_of(const verbena_cancellation* cancellation) {
  return cancellation == nullptr ? std::stop_token() : cancellation->source.get_token();
}

Outcome<std::map<std::string, std::string>> pairs_of(const verbena_pair* pairs, size_t count) {
  if (pairs == nullptr && count != 0) return null_argument();
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < count; ++i) {
    if (pairs[i].name == nullptr || pairs[i].value == nullptr) return null_argument();
    out[pairs[i].name] = pairs[i].value;
  }
  return out;
}

}  // namespace

verbena_info* make_info(verbena::ObjectInfo info) {
  auto made = std::make_unique<verbena_info>();
  made->info = std::move(info);
  for (const auto& [name, value] : made->info.metadata) made->metadata.push_back({name.c_str(), value.c_str()});
  for (const auto& [name, value] : made->info.headers) made->headers.push_back({name.c_str(), value.c_str()});
  return made.release();
}

verbena_info* make_info(verbena::PutReply& put) {
  verbena::ObjectInfo info;
  info.headers = std::move(put.headers);
  return make_info(std::move(info));
}

Outcome<GetRequest> get_request(const verbena_get_options* options) {
  OUT_ASSIGN(const verbena_get_options given, known(options));
  if (given.ranges == nullptr && given.range_count != 0) return null_argument();
  if (given.range_count > 65'536) return fault(ErrorCode::invalid_argument, "more than 65536 ranges");
  GetRequest out;
  out.options.if_match = text(given.if_match);
  out.options.if_none_match = text(given.if_none_match);
  out.options.version_id = text(given.version_id);
  out.options.metadata = given.info != nullptr;
  out.options.verify_device = given.verify_device != 0;
  out.options.cancel = token_of(given.cancellation);
  out.info = given.info;
  if (out.info != nullptr) *out.info = nullptr;
  for (size_t i = 0; i < given.range_count; ++i) {
    const verbena_range& range = given.ranges[i];
    if (range.length > UINT64_MAX - range.offset) return fault(ErrorCode::invalid_argument, "a range that wraps");
    out.ranges.push_back({range.offset, range.length});
  }
  if (out.ranges.size() == 1) {
    out.options.range = out.ranges[0];
    out.ranges.clear();
  }
  return out;
}

Outcome<PutRequest> put_request(const verbena_put_options* options) {
  OUT_ASSIGN(const verbena_put_options given, known(options));
  PutRequest request;
  request.info = given.info;
  if (request.info != nullptr) *request.info = nullptr;
  verbena::PutOptions& out = request.options;
  out.describe = given.info != nullptr;
  out.content_type = text(given.content_type);
  OUT_ASSIGN(out.metadata, pairs_of(given.metadata, given.metadata_count));
  OUT_ASSIGN(out.headers, pairs_of(given.headers, given.header_count));
  out.if_match = text(given.if_match);
  out.if_none_match = text(given.if_none_match);
  out.checksum = text(given.checksum);
  if (given.ttl_s > INT64_MAX) return fault(ErrorCode::invalid_argument, "ttl_s");
  out.ttl = std::chrono::seconds(given.ttl_s);
  out.md5_etag = given.md5_etag != 0;
  out.verify_device = given.verify_device != 0;
  out.cancel = token_of(given.cancellation);
  return request;
}

Outcome<HeadRequest> head_request(const verbena_head_options* options) {
  OUT_ASSIGN(const verbena_head_options given, known(options));
  HeadRequest out;
  out.options.version_id = text(given.version_id);
  out.options.cancel = token_of(given.cancellation);
  out.info = given.info;
  if (out.info != nullptr) *out.info = nullptr;
  return out;
}

Outcome<verbena::RemoveOptions> delete_request(const verbena_delete_options* options) {
  OUT_ASSIGN(const verbena_delete_options given, known(options));
  verbena::RemoveOptions out;
  out.version_id = text(given.version_id);
  out.if_match = text(given.if_match);
  out.cancel = token_of(given.cancellation);
  return out;
}

Outcome<verbena::RenameOptions> rename_request(const verbena_rename_options* options) {
  OUT_ASSIGN(const verbena_rename_options given, known(options));
  verbena::RenameOptions out;
  out.source_if_match = text(given.source_if_match);
  out.if_match = text(given.if_match);
  out.if_none_match = text(given.if_none_match);
  out.token = text(given.token);
  out.cancel = token_of(given.cancellation);
  return out;
}

Outcome<verbena::ListOptions> list_request(const verbena_list_options* options) {
  OUT_ASSIGN(const verbena_list_options given, known(options));
  verbena::ListOptions out;
  out.prefix = text(given.prefix);
  out.delimiter = text(given.delimiter);
  out.after = text(given.after);
  out.continuation = text(given.continuation);
  if (given.max_keys != 0) out.max_keys = given.max_keys;
  out.cancel = token_of(given.cancellation);
  return out;
}

Outcome<verbena::WatchOptions> watch_request(const verbena_watch_options* options) {
  OUT_ASSIGN(const verbena_watch_options given, known(options));
  verbena::WatchOptions out;
  out.prefix = text(given.prefix);
  out.cancel = token_of(given.cancellation);
  return out;
}

Outcome<verbena::Buffer> part_of(const verbena_buffer* buffer, size_t offset, size_t size) {
  verbena::Buffer part = buffer->buffer.slice(offset, size);
  if (!part) return fault(ErrorCode::invalid_argument, "offset and size lie outside the buffer");
  return part;
}

}  // namespace verbena::c_api
