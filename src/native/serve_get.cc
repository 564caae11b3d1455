// GET and HEAD.
#include "native/endpoint.h"
#include "native/object_reply.h"
#include "native/range_fan_out.h"
#include "native/sinks.h"
#include "rdma/token_windows.h"
#include "s3/objects/range.h"
#include "s3/objects/read.h"
#include "s3/objects/said.h"
#include "s3/objects/send.h"

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

// The place for the bytes in the reply, behind the answer, if both fit.
std::optional<MutableBytes> place_inside(const Op& op, wire::Writer& out, const s3::OpenObject& object,
                                         const ObjectAnswer& answer) {
  const uint64_t total = answer.length;
  if (total > op.inline_max || total > op.endpoint->info().inline_max_bytes) return std::nullopt;
  const bool full = op.has(wire::flag_full_headers);
  if (!encode_answer(out, object.info(), answer, op.version(), static_cast<uint32_t>(total), full, op.said) ||
      out.left() < total) {
    out.rewind(0);
    return std::nullopt;
  }
  return out.reserve(total);
}

Result<std::unique_ptr<fabric::Window>> open_window(const Op& op, uint64_t total) {
  if (!op.has(wire::flag_window) || op.window.size < total) {
    return fail(Errc::too_large, "native: neither window nor reply holds the bytes");
  }
  const fabric::WindowDescriptor lent{op.window.base, op.window.size, op.window.key};
  ++op.stream->moved.windows;
  return op.endpoint->port().open_window(op.stream->peer, lent, fabric::Access::server_writes);
}

void moved_out(Op& op, metrics::Counter& trace, const s3::OpenObject& object, const ObjectAnswer& answer) {
  op.moved.out = answer.length;
  op.answers(object.info(), answer.partial);
  trace.add(answer.length);
}

// Completes the reply after the bytes have been moved.
void finish_inside(Op& op, const wire::Writer& out, const s3::OpenObject& object, const ObjectAnswer& answer) {
  op.body_size = out.size();
  moved_out(op, op.endpoint->door().metrics.inline_out, object, answer);
}

// The answer without bytes. Made before they move to a window, so that none do for an answer that cannot be sent.
Result<void> encode_alone(const Op& op, wire::Writer& out, const store::ObjectInfo& info, const ObjectAnswer& answer) {
  if (!encode_answer(out, info, answer, op.version(), 0, op.has(wire::flag_full_headers), op.said)) {
    return fail(Errc::metadata_too_large, "native: headers exceed a message");
  }
  return {};
}

void finish_window(Op& op, const wire::Writer& out, const s3::OpenObject& object, const ObjectAnswer& answer) {
  op.body_size = out.size();
  moved_out(op, op.endpoint->door().metrics.window_out, object, answer);
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

bool sent_now(const s3::OpenObject& object, memory::Sink& sink) {
  return s3::send_now(object, sink) == memory::AtOnce::sent;
}

// False: the bytes cannot be sent at once. The client got no reply; bytes that were already written are sent again.
bool deliver_now(Op& op, const s3::OpenObject& object) {
  const ObjectAnswer answer = one_range(object);
  wire::Writer out(op.body_space());
  if (const auto place = place_inside(op, out, object, answer)) {
    InlineSink sink(*place);
    if (!sent_now(object, sink)) return false;
    finish_inside(op, out, object, answer);
    return true;
  }
  auto window = open_window(op, answer.length);
  if (!window) return false;
  if (auto encoded = encode_alone(op, out, object.info(), answer); !encoded) {
    op.fail(encoded.error().code);
    return true;
  }
  op.sink.emplace(std::move(*window), op.operation_deadline());
  if (!sent_now(object, *op.sink)) return false;
  finish_window(op, out, object, answer);
  return true;
}

Task<Result<void>> send_inside(Op& op, const s3::OpenObject& object, const ObjectAnswer& answer, MutableBytes place) {
  s3::Service& service = op.endpoint->door().service;
  if (answer.ranges.count <= 1) {
    InlineSink sink(place);
    co_return co_await s3::send_object(service, object, sink, op.caller.trace);
  }
  for (const wire::Placed& range : answer.ranges) {
    s3::OpenObject part = object;
    part.offset = range.offset;
    part.length = range.length;
    InlineSink sink(place.first(range.length));
    VB_CO_TRY(co_await s3::send_object(service, part, sink));
    place = place.subspan(range.length);
  }
  co_return Result<void>{};
}

Task<Result<void>> send_to_window(Op& op, const s3::OpenObject& object, const ObjectAnswer& answer) {
  s3::Service& service = op.endpoint->door().service;
  if (!op.sink) {
    VB_CO_ASSIGN(auto window, open_window(op, answer.length));
    if (answer.ranges.count > 1) {
      co_return co_await send_ranges(service, object, answer.ranges, std::move(window), op.operation_deadline());
    }
    op.sink.emplace(std::move(window), op.operation_deadline());
  }
  co_return co_await send_drained(service, object, *op.sink, op.caller.trace);
}

// The bytes inside the reply if they fit there, else through the window, and the reply when every write has completed.
Task<Result<void>> deliver(Op& op, const s3::OpenObject& object) {
  ObjectAnswer answer;
  VB_CO_ASSIGN(answer.length, place_ranges(op, object, answer));
  answer.partial = object.partial || op.ranges.size() > 1;
  wire::Writer out(op.body_space());
  if (const auto place = place_inside(op, out, object, answer)) {
    if (!place->empty()) VB_CO_TRY(co_await send_inside(op, object, answer, *place));
    finish_inside(op, out, object, answer);
    co_return Result<void>{};
  }
  VB_CO_TRY(encode_alone(op, out, object.info(), answer));
  if (answer.length != 0) VB_CO_TRY(co_await send_to_window(op, object, answer));
  finish_window(op, out, object, answer);
  co_return Result<void>{};
}

Task<void> note_said(Op& op, const store::ObjectInfo& info) {
  op.said.clear();
  co_await s3::add_said_headers(op.endpoint->door().service, s3::Said::of_read, op.get.bucket, op.get.key, info,
                                op.said);
}

bool note_said_now(Op& op, const store::ObjectInfo& info) {
  return !op.has(wire::flag_said_headers) || s3::add_said_headers_now(op.endpoint->door().service, s3::Said::of_read,
                                                                      op.get.bucket, op.get.key, info, op.said);
}

Task<Result<void>> get(Op& op) {
  // The reader pins the object, so that all ranges see one version.
  if (op.ranges.size() > 1) op.get.range.reset();
  if (!op.opened) {
    const ScopedStage opens(op.caller.trace, Stage::open);
    VB_CO_ASSIGN(op.opened, co_await s3::open_object(op.endpoint->door().service, op.caller, op.get));
  }
  if (op.has(wire::flag_said_headers)) co_await note_said(op, op.opened->info());
  co_return co_await deliver(op, *op.opened);
}

Task<Result<void>> head(Op& op) {
  VB_CO_ASSIGN(const s3::HeadReply found, co_await s3::head_object(op.endpoint->door().service, op.caller, op.get));
  if (op.has(wire::flag_said_headers)) co_await note_said(op, found.info);
  wire::Writer out(op.body_space());
  VB_CO_TRY(encode_alone(op, out, found.info, one_range(found)));
  op.body_size = out.size();
  op.answers(found.info, found.partial);
  co_return Result<void>{};
}

}  // namespace

bool serve_hot_get(Op& op) {
  if (op.ranges.size() > 1) return false;
  using Step = s3::ObjectRead::Step;
  s3::ObjectRead read(op.endpoint->door().service, op.caller, op.get, s3::ObjectRead::Of::bytes);
  const Step step = read.look();
  if (step == Step::refusal) {
    op.fail(read.error().code);
    return true;
  }
  if (step != Step::answer) return false;
  op.opened = read.take();
  return note_said_now(op, op.opened->info()) && deliver_now(op, *op.opened);
}

Task<void> serve_get(OpPtr op) {
  auto done = co_await get(*op);
  op->opened.reset();  // released early: the reply may have to wait
  op->sink.reset();
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
