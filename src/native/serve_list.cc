// LIST: one page, as much of it as one message holds. LIST_VALUES: likewise, and as much as the client's window holds.
#include "native/endpoint.h"
#include "native/read_batch.h"

namespace verbena::native {
namespace {

// Keys and common prefixes in one byte order, so that the last one sent is where the next page begins.
uint32_t encode_items(wire::Writer& out, const store::ListPage& page, bool& all) {
  auto entry = page.entries.begin();
  auto prefix = page.common_prefixes.begin();
  uint32_t count = 0;
  while (entry != page.entries.end() || prefix != page.common_prefixes.end()) {
    const bool take_prefix =
        entry == page.entries.end() || (prefix != page.common_prefixes.end() && *prefix < entry->key);
    wire::ListItem item;
    if (take_prefix) {
      item.common_prefix = true;
      item.key = *prefix++;
    } else {
      item = {.key = entry->key,
              .size = entry->info.size,
              .modified_us = entry->info.modified_us,
              .etag = entry->info.etag};
      ++entry;
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

}  // namespace

Task<void> serve_list(OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  auto page = co_await s3::list_objects(endpoint.door().service, op->caller, op->bucket, op->list);
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
  auto page = co_await s3::list_objects(endpoint.door().service, op->caller, op->bucket, op->list);
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
