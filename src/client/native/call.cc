#include "client/native/call.h"

#include "base/copy.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

void copy_object(const wire::ObjectReply& reply, NativeObject& object) {
  object.length = reply.length;
  object.object_size = reply.object_size;
  object.modified_us = reply.modified_us;
  object.partial = reply.partial;
  object.parts = reply.parts;
  object.etag.assign(reply.etag);
  object.version_id.assign(reply.version);
  for (const auto& sum : reply.checksums)
    object.checksums.push_back({sum.algorithm, std::string(sum.value), sum.parts});
  for (const auto& range : reply.ranges) object.ranges.emplace_back(range.offset, range.length);
  for (const auto& header : reply.headers) object.headers.emplace_back(header.name, header.value);
}

}  // namespace

Result<void> ObjectCall::answered(Bytes body) {
  const auto reply = wire::decode_object_reply(body);
  if (!reply) return fail(Errc::malformed, "native: reply");
  const bool get = type == wire::Type::get;
  // Inline replies carry all bytes or none.
  if (reply->inline_size != 0 && (!get || reply->inline_size != reply->length)) {
    return fail(Errc::malformed, "native: reply's inline bytes");
  }
  if (get && device && reply->inline_size != 0) {
    return fail(Errc::malformed, "native: inline bytes for a device");
  }
  if (get) {
    if (reply->length > into.size()) return fail(Errc::malformed, "native: more bytes than fit");
    if (reply->inline_size != 0) {
      copy_bytes(into.data(), reply->inline_bytes.data(), reply->inline_size);
    } else if (reply->length != 0 && lent == nullptr) {
      return fail(Errc::malformed, "native: bytes in a window that was not lent");
    } else {
      bytes_staged = staging != nullptr && reply->length != 0;
    }
  }
  copy_object(*reply, object);
  return {};
}

// Only copied: the stream's other callers wait meanwhile.
Result<void> ListCall::answered(Bytes reply) {
  body.assign(reply.begin(), reply.end());
  return {};
}

}  // namespace verbena::client
