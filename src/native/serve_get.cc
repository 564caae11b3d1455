// GET and HEAD.
#include <boost/asio/this_coro.hpp>

#include "native/endpoint.h"
#include "native/object_reply.h"
#include "native/range_fan_out.h"
#include "native/streams.h"
#include "rdma/token_windows.h"
#include "s3/door_metrics.h"
#include "s3/range.h"

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

Task<Result<void>> get(Op& op) {
  Endpoint& endpoint = *op.endpoint;
  // 1. Authorize, open, check conditions; the reader pins the object, so that all ranges see one version.
  if (op.ranges.size() > 1) op.get.range.reset();
  VB_CO_ASSIGN(const s3::OpenObject object, co_await s3::open_object(endpoint.door().service, op.caller, op.get));
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
    endpoint.door().metrics.inline_out.add(total);
    s3::count_bytes(s3::Door::native, s3::Direction::out, total);
    op.body_size = out.size();
    co_return Result<void>{};
  }
  if (total != 0 && (!op.has(wire::flag_window) || op.window.size < total)) {
    co_return fail(Errc::too_large, "native: neither window nor reply holds the bytes");
  }
  if (total != 0) VB_CO_TRY(co_await push_to_window(op, object, answer));
  endpoint.door().metrics.window_out.add(total);
  // 4. The reply, now that every write has completed.
  out.rewind(0);
  if (!encode_answer(out, object.info(), answer, 0, op.has(wire::flag_full_headers))) {
    co_return fail(Errc::metadata_too_large, "native: headers exceed a message");
  }
  op.body_size = out.size();
  s3::count_bytes(s3::Door::native, s3::Direction::out, total);
  co_return Result<void>{};
}

Task<Result<void>> head(Op& op) {
  VB_CO_ASSIGN(const s3::HeadReply found, co_await s3::head_object(op.endpoint->door().service, op.caller, op.get));
  ObjectAnswer answer;
  answer.partial = found.partial;
  answer.length = found.length;
  if (found.partial) answer.ranges.add({found.offset, found.length});
  wire::Writer out(op.body_space());
  if (!encode_answer(out, found.info, answer, 0, op.has(wire::flag_full_headers))) {
    co_return fail(Errc::metadata_too_large, "native: headers exceed a message");
  }
  op.body_size = out.size();
  co_return Result<void>{};
}

}  // namespace

Task<void> serve_get(OpPtr op) {
  auto done = co_await get(*op);
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
