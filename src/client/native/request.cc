#include "client/native/request.h"

#include "base/copy.h"
#include "client/native/device_memory.h"
#include "client/peer_memory.h"
#include "fabric/device.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

Result<void> check_name(std::string_view bucket, std::string_view key) {
  if (bucket.empty() || bucket.size() > wire::bucket_size_max) return fail(Errc::invalid_bucket_name, "native: bucket");
  if (key.empty()) return fail(Errc::invalid_request, "native: empty key");
  if (key.size() > wire::key_size_max) return fail(Errc::key_too_long, "native: key");
  return {};
}

wire::Range wire_range(const NativeRange& range) {
  if (!range.first) return {wire::open_end, range.last.value_or(0)};
  return {*range.first, range.last.value_or(wire::open_end)};
}

void fill(const NativeGet& request, wire::Get& get) {
  get.bucket = request.bucket;
  get.key = request.key;
  get.part_number = static_cast<uint16_t>(request.part_number);
  get.if_modified_since_s = request.if_modified_since_s.value_or(wire::no_time);
  get.if_unmodified_since_s = request.if_unmodified_since_s.value_or(wire::no_time);
  for (const NativeRange& range : request.ranges) get.ranges.add(wire_range(range));
  for (const std::string& etag : request.if_match) get.if_match.add(etag);
  for (const std::string& etag : request.if_none_match) get.if_none_match.add(etag);
}

}  // namespace

Result<std::unique_ptr<fabric::Lent>> lend_device(fabric::Link& link, const NativeDevice& device, uint64_t number,
                                                  MutableBytes memory, fabric::Access access, bool& unfinished) {
  auto* const devices = dynamic_cast<fabric::DeviceLink*>(&link);
  if (devices == nullptr) return fail(Errc::unsupported, "native: the link lends no memory of devices");
  const auto at = static_cast<uint64_t>(memory.data() - device.bytes().data());
  return devices->lend_device({number, at, memory.size(), &unfinished}, access);
}

Result<wire::Descriptor> lend(NativeStream::Body& body, NativeCall& call, MutableBytes memory, fabric::Access access) {
  auto& device = call.device;
  auto lent = device.memory != nullptr
                  ? lend_device(body.link, *device.memory, device.number, memory, access, device.unfinished)
              : device.peer != nullptr ? device.peer->lend(body.link, memory, access)
                                       : body.link.lend(memory, access);
  if (!lent && device) return std::unexpected(lent.error());
  if (!lent) {
    VB_ASSIGN(call.staging, body.staging.take(body.link, memory.size()));
    call.staging_size = memory.size();
    const MutableBytes block = call.staging->first(memory.size());
    if (access == fabric::Access::server_reads) copy_bytes(block.data(), memory);
    lent = body.link.lend(block, access);
    if (!lent) return std::unexpected(lent.error());
  }
  call.lent = std::move(*lent);
  body.flags |= wire::flag_window;
  const fabric::WindowDescriptor& d = call.lent->descriptor();
  return wire::Descriptor{d.base, d.size, d.key};
}

Result<void> check(const NativeGet& request) {
  VB_TRY(check_name(request.bucket, request.key));
  if (request.ranges.size() > wire::ranges_max || request.if_match.size() > wire::etags_max ||
      request.if_none_match.size() > wire::etags_max) {
    return fail(Errc::invalid_request, "native: too many ranges or ETags");
  }
  if (request.part_number < 0 || request.part_number > 0xffff) return fail(Errc::invalid_argument, "native: part");
  return {};
}

Result<void> check(const NativePut& request) {
  VB_TRY(check_name(request.bucket, request.key));
  if (request.headers.size() > wire::headers_max) return fail(Errc::metadata_too_large, "native: headers");
  if (request.expected.size() > wire::checksums_max) return fail(Errc::invalid_request, "native: checksums");
  return {};
}

Result<void> prepare_get(const NativeGet& request, uint32_t inline_max_bytes, ObjectCall& call,
                         NativeStream::Body& body) {
  wire::Get get;
  fill(request, get);
  call.into = request.into;
  if (call.device) inline_max_bytes = 0;  // no CPU could put them there
  get.inline_max = static_cast<uint32_t>(std::min<size_t>(inline_max_bytes, request.into.size()));
  if (request.into.size() > inline_max_bytes) {
    VB_ASSIGN(get.window, lend(body, call, request.into, fabric::Access::server_writes));
  }
  if (request.full_headers) body.flags |= wire::flag_full_headers | wire::flag_said_headers;
  encode(body.out, get);
  return {};
}

Result<void> prepare_head(const NativeGet& request, NativeStream::Body& body) {
  wire::Get get;
  fill(request, get);
  if (request.full_headers) body.flags |= wire::flag_full_headers | wire::flag_said_headers;
  encode(body.out, get);
  return {};
}

Result<void> prepare_put(const NativePut& request, uint32_t inline_max_bytes, ObjectCall& call,
                         NativeStream::Body& body) {
  wire::Put put;
  put.bucket = request.bucket;
  put.key = request.key;
  put.size = request.from.size();
  put.compute = request.compute;
  put.if_match = request.if_match;
  put.if_none_match = request.if_none_match;
  for (const NativeChecksum& sum : request.expected) put.expected.add({sum.algorithm, 0, sum.value});
  for (const auto& [name, value] : request.headers) put.headers.add({name, value});
  const bool in_message = request.from.size() <= (call.device ? 0 : inline_max_bytes);
  if (!in_message) {
    // The server only reads this memory.
    const MutableBytes memory(const_cast<std::byte*>(request.from.data()), request.from.size());
    VB_ASSIGN(put.window, lend(body, call, memory, fabric::Access::server_reads));
  }
  if (request.md5_etag) body.flags |= wire::flag_md5_etag;
  if (request.said_headers) body.flags |= wire::flag_said_headers;
  if (request.append_at) {
    const wire::Append append{.offset = *request.append_at, .put = put};
    encode(body.out, append);
  } else {
    encode(body.out, put);
  }
  if (in_message) body.out.bytes(request.from);
  return {};
}

void settle(NativeStream& stream, ObjectCall& call) {
  if (call.staging == nullptr) return;
  if (call.outcome && call.bytes_staged) copy_bytes(call.into.data(), call.staging->data(), call.object.length);
  // Without an answer the block is not reused, although it has been withdrawn.
  stream.release(std::move(call.staging), call.outcome.has_value());
}

}  // namespace verbena::client
