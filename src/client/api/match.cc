// MATCH: by the native door where the server supports it, else as batches of HEADs.
#include <array>
#include <deque>

#include "client/api/client_impl.h"

namespace verbena {

using client::fault;

namespace {

Outcome<> check(const client::MatchKeys& keys, const MatchOptions& options) {
  if (keys.width != 16 && keys.width != 32)
    return fault(ErrorCode::invalid_argument, "match: hashes have 16 or 32 bytes");
  size_t total = 0;
  for (const uint32_t count : keys.counts) {
    if (count == 0 || count > match_keys_max - total) {
      return fault(ErrorCode::invalid_argument, "match: lists have at least one key, and all together at most 65536");
    }
    total += count;
  }
  if (total == 0) return fault(ErrorCode::invalid_argument, "match: there is no list");
  if (keys.hashes.size() != total * keys.width) {
    return fault(ErrorCode::invalid_argument, "match: the hashes are not as many as the lists have keys");
  }
  constexpr size_t key_size_max = 1024;
  if (keys.bucket.empty() || keys.bucket.size() > 255 || keys.name_space.size() + 1 + 2 * keys.width > key_size_max) {
    return fault(ErrorCode::invalid_argument, "match: an invalid bucket or namespace");
  }
  if (options.lease.count() < 0) return fault(ErrorCode::invalid_argument, "match: a lease below zero");
  return {};
}

void add_run(std::vector<MatchRun>& runs, uint64_t size) {
  if (!runs.empty() && runs.back().size == size) {
    ++runs.back().count;
  } else {
    runs.push_back({1, KeyPlace::unknown, size});
  }
}

// Whatever is wrong with a key ends its list; without the bucket there is nothing to count.
Outcome<> check_end(const MatchList& list) {
  if (list.ended != ErrorCode::no_such_bucket) return {};
  auto missing = fault(ErrorCode::no_such_bucket, "no such bucket");
  missing.error().s3_code = client::s3_code_for(ErrorCode::no_such_bucket);
  return missing;
}

}  // namespace

Outcome<MatchReply> Client::Impl::match(const client::MatchKeys& keys, const MatchOptions& options) {
  OUT_TRY(usable());
  OUT_TRY(check(keys, options));
  MatchReply reply;
  if (session_) {
    const std::string prefix = keys.name_space.empty() ? std::string() : keys.name_space + "/";
    client::NativeMatch request;
    request.bucket = keys.bucket;
    request.prefix = prefix;
    request.hashes = keys.hashes;
    request.width = keys.width;
    request.counts = keys.counts;
    auto done = client::with_retries(retry_, true, reply.transfer.attempts, [&] {
      reply.lists.clear();
      return session_->match(request, options, reply);
    });
    if (done) {
      reply.transfer.door = Via::native;
      reply.transfer.provider = session_->provider();
      for (const MatchList& list : reply.lists) OUT_TRY(check_end(list));
      return reply;
    }
    const bool old_server = done.error().code == ErrorCode::unsupported;
    if (!old_server && (options_.via == Via::native || !client::get_may_fall_back(done.error()))) {
      return std::unexpected(std::move(done).error());
    }
    reply.lists.clear();
    reply.transfer.fell_back_reason = "native: " + done.error().message;
  }
  if (options.lease.count() != 0) return fault(ErrorCode::unsupported, "match: only a native door has leases");
  size_t first = 0;
  for (const uint32_t count : keys.counts) {
    OUT_ASSIGN(MatchList list, match_by_heads(keys, first, count, options, reply.transfer));
    reply.lists.push_back(std::move(list));
    first += count;
  }
  return reply;
}

// One that cannot be ended ends with its time, or has ended with its session.
Outcome<> Client::Impl::end_lease(uint64_t lease) {
  OUT_TRY(usable());
  if (session_ && lease != 0) session_->end_lease(lease);
  return {};
}

// In batches, the first ones small: most lists end early or not at all.
Outcome<MatchList> Client::Impl::match_by_heads(const client::MatchKeys& keys, size_t first, uint32_t count,
                                                const MatchOptions& options, Transfer& transfer) {
  MatchList list;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results;
  for (size_t batch = 16; list.leading < count; batch = std::min(batch * 4, batch_items_max)) {
    const size_t now = std::min<size_t>(batch, count - list.leading);
    std::deque<std::string> names;
    items.clear();
    for (size_t i = 0; i < now; ++i) {
      const Bytes hash = keys.hashes.subspan((first + list.leading + i) * keys.width, keys.width);
      names.push_back(keys.name_space.empty() ? to_hex(hash) : keys.name_space + "/" + to_hex(hash));
      items.push_back({.bucket = keys.bucket, .key = names.back()});
    }
    results.assign(now, {});
    OUT_ASSIGN(const Transfer heads, many(Many::head, items, {}, results, {}));
    transfer.door = heads.door;
    transfer.provider = heads.provider;
    for (const BatchResult& result : results) {
      list.ended = result.error;
      if (result.error) break;
      ++list.leading;
      if (options.sizes || options.places) add_run(list.runs, options.sizes ? result.size : 0);
    }
    OUT_TRY(check_end(list));
    if (list.ended) break;
  }
  return list;
}

}  // namespace verbena
