#include "client/native/values.h"

#include <cstring>

#include "base/checksum.h"
#include "base/copy.h"
#include "client/native/request.h"
#include "native/wire/list_values.h"

namespace verbena::client {
namespace {

struct ValuesCall : NativeCall {
  struct Check {
    size_t value;
    Algorithm algorithm;
    std::string digest;
  };
  explicit ValuesCall(const NativeValues& wanted) : request(wanted) {}

  uint8_t details() const {
    return native::wire::detail_etag | native::wire::detail_size | native::wire::detail_version |
           (request.verify ? native::wire::detail_checksum : 0);
  }
  Result<void> answered(Bytes body) override;
  Result<void> take(const native::wire::ValueEntry& from);

  const NativeValues& request;
  NativeValuePage page;
  std::vector<Check> checks;
};

Result<void> ValuesCall::answered(Bytes body) {
  const Error bad{.code = Errc::malformed, .sys = 0, .context = "native: list of values"};
  auto reader = native::wire::ValueReader::open(body);
  if (!reader || reader->details() != details() || reader->left() > request.max_keys) return std::unexpected(bad);
  // An empty answer that claims more would be requested for ever.
  if (reader->more() && reader->left() == 0) return std::unexpected(bad);
  page.more = reader->more();
  page.values.reserve(reader->left());
  native::wire::ValueEntry value;
  while (reader->left() != 0) {
    if (!reader->next(value)) return std::unexpected(bad);
    VB_TRY(take(value));
  }
  if (!reader->complete()) return std::unexpected(bad);
  return {};
}

Result<void> ValuesCall::take(const native::wire::ValueEntry& from) {
  NativeValue& value = page.values.emplace_back();
  value.key.assign(from.key);
  value.code = from.entry.code;
  if (value.code != Errc::ok) return {};
  value.etag.assign(from.entry.etag);
  value.version_id.assign(from.entry.version);
  value.size = from.entry.object_size;
  value.modified_us = from.entry.modified_us;
  if (from.entry.listed_alone) return {};
  if (from.entry.length != value.size || from.offset > request.into.size() ||
      value.size > request.into.size() - from.offset) {
    return fail(Errc::malformed, "native: a value outside its window");
  }
  value.offset = from.offset;
  if (from.entry.checksum) {
    checks.push_back({page.values.size() - 1, from.entry.checksum->algorithm, std::string(from.entry.checksum->value)});
  }
  return {};
}

// Copies staged bytes to their places, then verifies them.
void settle(NativeStream& stream, ValuesCall& call) {
  for (const NativeValue& value : call.page.values) {
    if (call.staging == nullptr || !value.offset || value.size == 0) continue;
    copy_bytes(call.request.into.data() + *value.offset, call.staging->data() + *value.offset, value.size);
  }
  if (call.staging != nullptr) stream.release(std::move(call.staging), call.outcome.has_value());
  for (const auto& check : call.checks) {
    NativeValue& value = call.page.values[check.value];
    Digest digest(check.algorithm);
    digest.update(Bytes(call.request.into).subspan(*value.offset, value.size));
    if (digest.finish() == check.digest) continue;
    value.code = Errc::bad_digest;
    value.offset.reset();
  }
}

}  // namespace

Result<NativeValuePage> list_values(NativeStreams& streams, const NativeValues& request) {
  if (streams.version() < 2) return fail(Errc::unsupported, "native: the server lists no values");
  return list_values(streams.any(), request);
}

Result<NativeValuePage> list_values(NativeStream& stream, const NativeValues& request) {
  namespace wire = native::wire;
  if (request.bucket.empty() || request.bucket.size() > wire::bucket_size_max) {
    return fail(Errc::invalid_bucket_name, "native: bucket");
  }
  if (request.prefix.size() > wire::key_size_max || request.after.size() > wire::key_size_max) {
    return fail(Errc::key_too_long, "native: prefix");
  }
  ValuesCall call(request);
  call.type = wire::Type::list_values;
  call.deadline = deadline_in(request.timeout);
  const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
    wire::ListValues message{.window = {},
                             .value_size_max = request.value_size_max,
                             .max_keys = request.max_keys,
                             .details = call.details(),
                             .bucket = request.bucket,
                             .prefix = request.prefix,
                             .after = request.after};
    if (!request.into.empty()) {
      VB_ASSIGN(message.window, lend(body, call, request.into, fabric::Access::server_writes));
      body.flags = 0;  // a listing has no flags
    }
    encode(body.out, message);
    return {};
  };
  call.outcome = stream.run(call, prepare);
  if (!call.outcome) {
    call.page = {};
    call.checks.clear();  // of values that are in no page
  }
  settle(stream, call);
  if (!call.outcome) return std::unexpected(call.outcome.error());
  return std::move(call.page);
}

}  // namespace verbena::client
