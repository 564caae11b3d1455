// PUT, APPEND, RENAME and DELETE.
#include "native/endpoint.h"
#include "native/object_reply.h"
#include "native/sinks.h"
#include "rdma/token_windows.h"
#include "s3/objects/said.h"

namespace verbena::native {
namespace {

Task<Result<s3::PutReply>> store_from_window(Op& op) {
  if (op.window.size < op.put_size) co_return fail(Errc::incomplete_body, "native: window shorter than the object");
  const fabric::WindowDescriptor lent{op.window.base, op.window.size, op.window.key};
  ++op.stream->moved.windows;
  VB_CO_ASSIGN(auto window, op.endpoint->port().open_window(op.stream->peer, lent, fabric::Access::server_reads));
  rdma::WindowSource source(std::move(window), op.put_size, op.operation_deadline());
  co_return co_await s3::put_object(op.endpoint->door().service, op.caller, std::move(op.put), source);
}

Task<Result<s3::PutReply>> store_inline(Op& op) {
  InlineSource source(op.inline_bytes);
  co_return co_await s3::put_object(op.endpoint->door().service, op.caller, std::move(op.put), source);
}

Task<Result<void>> put(Op& op) {
  Endpoint& endpoint = *op.endpoint;
  if (op.put_size > store::object_size_max) co_return fail(Errc::entity_too_large, "native: object size");
  // An empty object needs no window: some devices drop transfers of zero bytes.
  const bool from_window = op.has(wire::flag_window) && op.put_size != 0;
  const uint64_t added = op.put_size;  // of an APPEND, whose object is longer
  op.put.conditions.wanted = op.wanted();
  Result<s3::PutReply> stored;
  if (from_window) {
    stored = co_await store_from_window(op);
  } else {
    stored = co_await store_inline(op);
  }
  if (!stored) co_return std::unexpected(stored.error());
  (from_window ? endpoint.door().metrics.window_in : endpoint.door().metrics.inline_in).add(op.put_size);
  op.moved.in = stored->received;
  op.answers(stored->info, false);
  ObjectAnswer answer;
  answer.length = added;
  if (op.has(wire::flag_said_headers)) {
    co_await s3::add_said_headers(endpoint.door().service, s3::Said::of_write, op.bucket, op.key, stored->info,
                                  op.said);
  }
  wire::Writer out(op.body_space());
  // The object is committed: details that do not fit the reply must not turn success into an error.
  if (!encode_answer(out, stored->info, answer, op.version(), 0, false, op.said)) {
    out.rewind(0);
    stored->info.checksums.clear();
    op.said.clear();
    encode_answer(out, stored->info, answer, op.version(), 0, false, op.said);
  }
  op.body_size = out.size();
  co_return Result<void>{};
}

}  // namespace

Task<void> serve_put(OpPtr op) {
  auto done = co_await put(*op);
  if (!done) op->fail(done.error().code);
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

Task<void> serve_rename(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  op->rename.wanted = op->wanted();
  auto done = co_await s3::rename_object(endpoint.door().service, op->caller, std::move(op->rename));
  op->fail(done ? Errc::ok : done.error().code);  // a code alone, also for success
  endpoint.reply(std::move(op));
}

Task<void> serve_delete(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  store::RemoveRequest request;
  request.conditions = op->conditions;
  request.conditions.wanted = op->wanted();
  auto done = co_await s3::delete_object(endpoint.door().service, op->caller, op->bucket, op->key, std::move(request));
  op->fail(done ? Errc::ok : done.error().code);  // a code alone, also for success
  endpoint.reply(std::move(op));
}

}  // namespace verbena::native
