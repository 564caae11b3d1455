// LIST: one page, limited by the size of a message. LIST_VALUES: likewise, and limited by the client's window.
#include "memory/budget.h"
#include "native/endpoint.h"
#include "native/read_batch.h"
#include "native/wire/list_items.h"

namespace verbena::native {
namespace {

// Encodes the items into the reply's message, which it has until the page is complete.
class ListMessage final : public store::ListSink {
 public:
  explicit ListMessage(Op& op) : writer_(op.body_space(), op.version()), bytes_(std::move(op.reply)) {}
  void restart() override { writer_.restart(); }
  bool add(std::string_view key, const store::ListedHead& head) override {
    return writer_.add({.key = key, .size = head.size, .modified_us = head.modified_us, .etag = head.etag});
  }
  bool add_prefix(std::string_view prefix) override {
    return writer_.add({.common_prefix = true, .key = prefix, .etag = {}});
  }
  size_t finish(bool truncated) { return writer_.finish(truncated); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  wire::ListWriter writer_;  // of `bytes_`
  std::vector<std::byte> bytes_;
};

// The objects are kept until their values are read. A client's share of memory bounds how many pages of them it has at
// once; further requests wait.
Task<Result<store::ListPage>> list_in_turn(Op& op) {
  constexpr size_t entry_bytes = 2 * KiB;  // a long key and the properties of its object
  s3::Service& service = op.endpoint->door().service;
  memory::Share share(service.arena, op.caller.peer_address, std::nullopt);
  VB_CO_ASSIGN(op.page, co_await share.take_whole(entry_bytes * (1 + static_cast<size_t>(op.list.max_keys))));
  if (op.stream->closed || !op.endpoint->still_known(*op.stream)) co_return fail(Errc::access_denied, "native: gone");
  if (Endpoint::is_old(op.caller, *op.stream)) Endpoint::renew(op.caller, *op.stream);
  co_return co_await s3::list_objects(service, op.caller, op.bucket, op.list);
}

}  // namespace

Task<void> serve_list(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  const auto message = std::make_shared<ListMessage>(*op);
  op->list.sink = message;
  const auto page = co_await s3::list_objects(endpoint.door().service, op->caller, op->bucket, op->list);
  op->list.sink.reset();
  op->reply = message->take();
  if (page) {
    op->body_size = message->finish(page->truncated);
  } else {
    op->fail(page.error().code);
  }
  endpoint.reply(std::move(op));
}

Task<void> serve_list_values(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  const auto listed = std::make_shared<store::ListedObjects>();
  op->list.sink = listed;
  const auto page = co_await list_in_turn(*op);
  op->list.sink.reset();
  Result<void> begun;
  if (!page) {
    begun = std::unexpected(page.error());
  } else {
    begun = endpoint.take_read_batch(*op).begin_listing(*op, listed, page->truncated);
  }
  if (begun) co_return ReadBatch::start(std::move(op));
  op->fail(begun.error().code);
  endpoint.reply(std::move(op));
}

}  // namespace verbena::native
