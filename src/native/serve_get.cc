// GET and HEAD.
#include <boost/asio/this_coro.hpp>

#include "native/endpoint.h"
#include "native/object_reply.h"
#include "native/range_fan_out.h"
#include "native/streams.h"
#include "rdma/token_windows.h"
#include "s3/door_metrics.h"
#include "s3/objects/range.h"

namespace verbena::native {
namespace {

Result<uint64_t> place_ranges(const Op& op, const s3::OpenObject& object, ObjectAnswer& answer) {
  if (op.ranges.size() <= 1) {
    if (object.partial) answer.ranges.add({object.offset, object.length});
    return object.length;
  }
  uint64_t total = 0;
  for (const wire::Range& range : op.ranges) {
    VB_ASSIGN(const s3::Extent placed, s3::resolve_range(byte_range(range), object.info().size));
    total += placed.length;  // at most 64 objects' bytes: far from overflowing
    answer.ranges.add({placed.offset, placed.length});
  }
  return total;
}

Task<Result<void>> push(Op& op, const s3::OpenObject& object, const ObjectAnswer& answer, MutableBytes place) {
  s3::Service& service = op.endpoint->door().service;
  if (answer.ranges.count <= 1) {
    InlineSink sink(place);
    co_return co_await s3::push_object(service, object, sink);
  }
  for (const wire::Placed& range : answer.ranges) {
    s3::OpenObject part = object;
    part.offset = range.offset;
    part.length = range.length;
    InlineSink sink(place.first(range.length));
    VB_CO_TRY(co_await s3::push_object(service, part, sink));
    place = place.subspan(range.length);
  }
  co_return Result<void>{};
}

Task<Result<void>> push_to_window(Op& op, const s3::OpenObject& object, const ObjectAnswer& answer) {
  s3::Service& service = op.endpoint->door().service;
  const fabric::WindowDescriptor lent{op.window.base, op.window.size, op.window.key};
  VB_CO_ASSIGN(auto window, op.endpoint->port().open_window(op.lane->peer, lent, fabric::Access::server_writes));
  if (answer.ranges.count > 1) {
    co_return co_await push_ranges(service, object, answer.ranges, std::move(window), op.operation_deadline());
  }
  rdma::WindowSink sink(std::move(window), op.operation_deadline());
  co_return co_await push_drained(service, object, sink);
}

// The bytes of one range, piece by piece, to where `place` puts them: place(bytes, at).
template <class Place>
bool copy_hot(const s3::OpenObject& object, Place place) {
  for (uint64_t at = 0; at < object.length;) {
    const memory::Chunk piece = object.reader->peek(object.offset + at, object.length - at);
    if (piece.bytes.empty() || !place(piece.bytes, at)) return false;
    at += piece.bytes.size();
  }
  return true;
}

// `Found`: s3::OpenObject or s3::HeadReply.
template <class Found>
ObjectAnswer one_range(const Found& found) {
  ObjectAnswer answer;
  answer.partial = found.partial;
  answer.length = found.length;
  if (found.partial) answer.ranges.add({found.offset, found.length});
  return answer;
}

// Into the window at once, where the transport copies. False: not this way (nothing was told to the client; bytes that
// landed are overwritten with the same).
bool write_hot(Op& op, const s3::OpenObject& object) {
  if (!op.has(wire::flag_window) || op.window.size < object.length) return false;
  const fabric::WindowDescriptor lent{op.window.base, op.window.size, op.window.key};
  auto window = op.endpoint->port().open_window(op.lane->peer, lent, fabric::Access::server_writes);
  if (!window || (*window)->immediate_size_max() < object.length) return false;
  return copy_hot(object, [&](Bytes bytes, uint64_t at) { return (*window)->write_now(bytes, at).has_value(); });
}

void count_out(Op& op, metrics::Counter& way, uint64_t bytes) {
  op.noted.bytes_out = bytes;
  if (&way == &op.endpoint->door().metrics.window_out) op.noted.rdma_bytes = bytes;
  way.add(bytes);
  s3::count_bytes(s3::Door::native, s3::Direction::out, bytes);
}

// False: its bytes cannot go at once.
bool send_hot(Op& op, const s3::OpenObject& object) {
  Endpoint& endpoint = *op.endpoint;
  const ObjectAnswer answer = one_range(object);
  const bool full = op.has(wire::flag_full_headers);
  wire::Writer out(op.body_space());
  if (object.length <= op.inline_max && object.length <= endpoint.info().inline_max_bytes &&
      encode_answer(out, object.info(), answer, static_cast<uint32_t>(object.length), full) &&
      out.left() >= object.length) {
    const MutableBytes place = out.reserve(object.length);
    const auto copy = [&](Bytes bytes, uint64_t at) {
      std::memcpy(place.data() + at, bytes.data(), bytes.size());
      return true;
    };
    if (!copy_hot(object, copy)) return false;
    count_out(op, endpoint.door().metrics.inline_out, object.length);
  } else {
    out.rewind(0);
    if (!write_hot(op, object) || !encode_answer(out, object.info(), answer, 0, full)) return false;
    count_out(op, endpoint.door().metrics.window_out, object.length);
  }
  op.body_size = out.size();
  return true;
}

Task<Result<void>> get(Op& op) {
  Endpoint& endpoint = *op.endpoint;
  // 1. Authorize, open, check conditions; the reader pins the object, so that all ranges see one version.
  if (op.ranges.size() > 1) op.get.range.reset();
  if (!op.opened) {
    VB_CO_ASSIGN(op.opened, co_await s3::open_object(endpoint.door().service, op.caller, op.get));
  }
  const s3::OpenObject& object = *op.opened;
  // 2. Where each byte goes.
  ObjectAnswer answer;
  VB_CO_ASSIGN(const uint64_t total, place_ranges(op, object, answer));
  answer.partial = object.partial || op.ranges.size() > 1;
  answer.length = total;
  // 3. Inside the reply if it fits there, else through the window.
  const bool small = total <= op.inline_max && total <= endpoint.info().inline_max_bytes;
  wire::Writer out(op.body_space());
  if (small &&
      encode_answer(out, object.info(), answer, static_cast<uint32_t>(total), op.has(wire::flag_full_headers)) &&
      out.left() >= total) {
    if (total != 0) VB_CO_TRY(co_await push(op, object, answer, out.reserve(total)));
    count_out(op, endpoint.door().metrics.inline_out, total);
    op.body_size = out.size();
    co_return Result<void>{};
  }
  if (total != 0 && (!op.has(wire::flag_window) || op.window.size < total)) {
    co_return fail(Errc::too_large, "native: neither window nor reply holds the bytes");
  }
  if (total != 0) VB_CO_TRY(co_await push_to_window(op, object, answer));
  // 4. The reply, now that every write has completed.
  out.rewind(0);
  if (!encode_answer(out, object.info(), answer, 0, op.has(wire::flag_full_headers))) {
    co_return fail(Errc::metadata_too_large, "native: headers exceed a message");
  }
  op.body_size = out.size();
  count_out(op, endpoint.door().metrics.window_out, total);
  co_return Result<void>{};
}

Task<Result<void>> head(Op& op) {
  VB_CO_ASSIGN(const s3::HeadReply found, co_await s3::head_object(op.endpoint->door().service, op.caller, op.get));
  wire::Writer out(op.body_space());
  if (!encode_answer(out, found.info, one_range(found), 0, op.has(wire::flag_full_headers))) {
    co_return fail(Errc::metadata_too_large, "native: headers exceed a message");
  }
  op.body_size = out.size();
  co_return Result<void>{};
}

}  // namespace

bool serve_hot_get(Op& op) {
  if (op.ranges.size() > 1) return false;
  auto opened = s3::open_hot_object(op.endpoint->door().service, op.caller, op.get);
  if (!opened) return false;
  if (!*opened) {
    op.fail(opened->error().code);
    return true;
  }
  op.opened = std::move(**opened);
  return send_hot(op, *op.opened);
}

Task<void> serve_get(OpPtr op) {
  auto done = co_await get(*op);
  op->opened.reset();  // the reply may have to wait
  if (!done) op->fail(done.error().code);
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

Task<void> serve_head(OpPtr op) {
  Result<void> done;
  if (op->ranges.size() > 1) {
    done = fail(Errc::invalid_request, "native: HEAD of several ranges");
  } else {
    done = co_await head(*op);
  }
  if (!done) op->fail(done.error().code);
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

}  // namespace verbena::native
