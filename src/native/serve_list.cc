// LIST: one page, limited by the size of a message. LIST_VALUES: likewise, and limited by the client's window.
#include <algorithm>

#include "memory/budget.h"
#include "native/endpoint.h"
#include "native/read_batch.h"

namespace verbena::native {
namespace {

// Merges keys and common prefixes in byte order, so that the next page begins after the last one sent.
uint32_t encode_items(wire::Writer& out, const store::ListPage& page, bool& all) {
  size_t next = 0;
  auto prefix = page.common_prefixes.begin();
  uint32_t count = 0;
  while (next != page.brief.size() || prefix != page.common_prefixes.end()) {
    wire::ListItem item;
    if (next != page.brief.size()) {
      const auto entry = page.brief[next];
      item = {.key = entry.key, .size = entry.size, .modified_us = entry.modified_us, .etag = entry.etag};
    }
    if (next == page.brief.size() || (prefix != page.common_prefixes.end() && *prefix < item.key)) {
      item = {};
      item.common_prefix = true;
      item.key = *prefix++;
    } else {
      ++next;
    }
    const size_t before = out.size();
    if (!encode(out, item)) {
      out.rewind(before);
      all = false;
      return count;
    }
    ++count;
  }
  all = true;
  return count;
}

// Items that a reply has room for if their keys are as long as the one before them, or longer than the prefix by a
// short name, and their ETags as long as an MD5, of which few are shorter: what is read beyond those is read in vain,
// and again for the next page. A page of shorter ones ends early.
size_t items_that_fit(const Op& op, size_t room) {
  constexpr size_t fixed = 20, longer = 12, etag = 32;  // bytes
  const size_t key = op.list.after.empty() ? op.list.prefix.size() + longer : op.list.after.size();
  return room / (fixed + key + (op.list.delimiter.empty() ? etag : 0)) + 1;
}

// Pages are complete before they are sent. A client's share of memory bounds how many it has at once; further requests
// wait.
Task<Result<store::ListPage>> list_in_turn(Op& op) {
  constexpr size_t entry_bytes = 2 * KiB;  // a long key and the properties of its object
  s3::Service& service = op.endpoint->door().service;
  memory::Share share(service.arena, op.caller.peer_address, std::nullopt);
  VB_CO_ASSIGN(op.page, co_await share.take_whole(entry_bytes * (1 + static_cast<size_t>(op.list.max_keys))));
  if (op.stream->closed || !op.endpoint->still_known(*op.stream)) co_return fail(Errc::access_denied, "native: gone");
  if (Endpoint::is_old(op.caller, *op.stream)) Endpoint::renew(op.caller, *op.stream);
  op.list.brief = true;
  co_return co_await s3::list_objects(service, op.caller, op.bucket, op.list);
}

}  // namespace

Task<void> serve_list(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  const size_t fit = items_that_fit(*op, op->body_space().size() - wire::list_reply_head_size);
  op->list.max_keys = std::min(op->list.max_keys, static_cast<int>(fit));
  auto page = co_await list_in_turn(*op);
  if (!page) {
    op->fail(page.error().code);
  } else {
    MutableBytes body = op->body_space();
    wire::Writer items(body.subspan(wire::list_reply_head_size));
    bool all = false;
    const uint32_t count = encode_items(items, *page, all);
    wire::Writer head(body.first(wire::list_reply_head_size));
    wire::encode_list_head(head, page->truncated || !all, count);
    op->body_size = wire::list_reply_head_size + items.size();
  }
  endpoint.reply(std::move(op));
}

Task<void> serve_list_values(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  auto page = co_await list_in_turn(*op);
  Result<void> begun;
  if (!page) {
    begun = std::unexpected(page.error());
  } else {
    begun = endpoint.take_read_batch(*op).begin_listing(*op, std::move(*page));
  }
  if (begun) co_return ReadBatch::start(std::move(op));
  op->fail(begun.error().code);
  endpoint.reply(std::move(op));
}

}  // namespace verbena::native
