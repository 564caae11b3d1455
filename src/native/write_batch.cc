#include "native/write_batch.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/copy.h"
#include "base/ticks.h"
#include "memory/budget.h"
#include "native/absent_source.h"
#include "native/batch_check.h"
#include "native/endpoint.h"
#include "native/sinks.h"
#include "rdma/token_windows.h"
#include "rdma/transfer_times.h"
#include "s3/access/authorize.h"

namespace verbena::native {

bool WriteBatch::is_put() const { return static_cast<wire::Type>(op_->header.type) == wire::Type::put_many; }

Result<void> WriteBatch::begin(Op& op, Bytes body) {
  op_ = &op;
  const auto type = static_cast<wire::Type>(op.header.type);
  body_.assign(body.begin(), body.end());
  VB_TRY(check_batch(body_, type));
  reader_ = wire::BatchReader::open(body_, type);
  const wire::BatchHead& head = reader_->head();
  out_.emplace(op.body_space().subspan(wire::batch_reply_head_size));
  if (out_->left() < head.count * entry_size_min)
    return fail(Errc::invalid_request, "batch: more items than a reply holds");
  for (size_t i = 0; i < head.windows.count; ++i) {
    const wire::Descriptor& lent = head.windows[i];
    ++op.stream->moved.windows;
    VB_ASSIGN(windows_[i], op.endpoint->port().open_window(op.stream->peer, {lent.base, lent.size, lent.key},
                                                           fabric::Access::server_reads));
  }
  taken_ = told_ = running_ = 0;
  caller_ = std::make_shared<const s3::Call>(op.caller);
  return {};
}

void WriteBatch::end() {
  for (auto& window : windows_) window.reset();
  ahead_.clear();
  run_ = {};
  ended_.reset();
  caller_.reset();
}

void WriteBatch::start(OpPtr op) {
  boost::asio::io_context& io = op->endpoint->core().io();
  op->write->ended_.emplace(io, SteadyClock::time_point::max());
  boost::asio::co_spawn(io, dispatch(std::make_shared<OpPtr>(std::move(op))), boost::asio::detached);
}

s3::PutRequest WriteBatch::put_request() const {
  s3::PutRequest put;
  put.bucket.assign(reader_->head().buckets[item_.bucket]);
  put.key.assign(item_.key);
  put.md5_etag = false;
  put.conditions.wanted = op_->wanted();
  if (item_.has(wire::field_if_match)) put.conditions.if_match.emplace(item_.if_match);
  if (item_.has(wire::field_if_none_match)) put.conditions.if_none_match.emplace(item_.if_none_match);
  put.expected = expected();
  put.headers = headers();
  return put;
}

std::vector<store::Checksum> WriteBatch::expected() const {
  if (!item_.expected) return {};
  return {{item_.expected->algorithm, std::string(item_.expected->value), 0}};
}

s3::Headers WriteBatch::headers() const {
  s3::Headers headers;
  for (const auto& header : item_.headers) headers.emplace_back(header.name, header.value);
  return headers;
}

store::RemoveRequest WriteBatch::remove_request() const {
  store::RemoveRequest request;
  request.version_id.assign(item_.version);
  request.conditions.wanted = op_->wanted();
  if (item_.has(wire::field_if_match)) request.conditions.if_match.emplace(item_.if_match);
  return request;
}

// Checked for each item, as in ReadBatch.
bool WriteBatch::still_allowed() {
  if (!op_->endpoint->still_known(*op_->stream)) return false;
  if (Endpoint::is_old(*caller_, *op_->stream)) {
    s3::Call now = *caller_;
    Endpoint::renew(now, *op_->stream);
    caller_ = std::make_shared<const s3::Call>(std::move(now));
  }
  return true;
}

void WriteBatch::begin_next(const Shared& shared) {
  Endpoint& endpoint = *op_->endpoint;
  reader_->next(item_);
  const size_t index = taken_++;
  ahead_.emplace_back();
  ++running_;
  endpoint.begin_write(*op_->stream->client);
  const std::string_view bucket = reader_->head().buckets[item_.bucket];
  if (!still_allowed()) {
    return complete(index, {.done = true, .code = Errc::access_denied, .etag = {}, .version = {}}, bucket, item_.key);
  }
  if (is_put() && is_small()) {
    if (has_to_be_fetched()) {
      if (may_be_written()) return join_run(shared, index);
    } else if (write_now(shared, index) != s3::PutNowOutcome::wait) {
      return;
    }
  }
  boost::asio::io_context& io = endpoint.core().io();
  if (is_put()) {
    boost::asio::co_spawn(io, write(shared, caller_, index, put_request(), item_.inline_bytes, item_.place),
                          boost::asio::detached);
  } else {
    boost::asio::co_spawn(io,
                          remove(shared, caller_, index, std::string(bucket), std::string(item_.key), remove_request()),
                          boost::asio::detached);
  }
}

// Zero bytes need no window: some devices drop transfers of nothing.
bool WriteBatch::from_window() const { return item_.place.window != wire::no_window && item_.place.size != 0; }

bool WriteBatch::is_small() const {
  const uint64_t size = from_window() ? item_.place.size : item_.inline_bytes.size();
  const bool conditions = item_.has(wire::field_if_match) || item_.has(wire::field_if_none_match);
  const uint64_t most = std::min(s3::put_now_max, op_->endpoint->door().service.store.whole_put_max());
  return size != 0 && size <= most && !conditions;
}

bool WriteBatch::has_to_be_fetched() const {
  return from_window() && windows_[item_.place.window]->immediate_size_max() < item_.place.size;
}

// Checks what is known now; put_object() checks the rest before a byte is fetched.
bool WriteBatch::may_be_written() const {
  const s3::BucketAccess* const access =
      s3::cached_access(op_->endpoint->door().service, reader_->head().buckets[item_.bucket]);
  const s3::Asked asked{.action = s3::action::put_object, .key = item_.key};
  return access != nullptr && s3::could_authorize(op_->endpoint->door().service, *caller_, *access, asked);
}

void WriteBatch::join_run(const Shared& shared, size_t index) {
  constexpr size_t most = memory::Budget::unit;
  const wire::BatchPlace& place = item_.place;
  const bool joins =
      run_.window == place.window && run_.offset + run_.size == place.offset && run_.size + place.size <= most;
  if (!joins) {
    fetch_run(shared);
    run_.window = place.window;
    run_.offset = place.offset;
  }
  run_.items.push_back({.index = index,
                        .bucket = reader_->head().buckets[item_.bucket],
                        .key = std::string(item_.key),
                        .place = place,
                        .expected = expected(),
                        .headers = headers()});
  run_.size += place.size;
}

void WriteBatch::fetch_run(const Shared& shared) {
  Run run = std::exchange(run_, {});
  if (run.items.empty()) return;
  boost::asio::co_spawn(op_->endpoint->core().io(), fetch(shared, std::move(run)), boost::asio::detached);
}

// Its items were counted as running when they joined it.
Task<void> WriteBatch::fetch(Shared shared, Run run) {
  WriteBatch& batch = *(*shared)->write;
  Op& op = **shared;
  const CallerPtr caller = batch.caller_;
  const std::shared_ptr<Endpoint> endpoint = op.endpoint;
  memory::Share share(op.endpoint->door().service.arena, caller->peer_address, run.size);
  auto lease = co_await share.lease(run.size);
  bool here = lease && lease->size() >= run.size;
  if (here) {
    const MutableBytes into = lease->bytes().first(run.size);
    rdma::TransferTimes& times = rdma::TransferTimes::get();
    const uint64_t began = ticks();
    auto read = co_await batch.windows_[run.window]->read(into, run.offset, deadline_in(op.operation_deadline()));
    times.read.observe_since(began);
    here = read.has_value();
  }
  size_t at = 0, begun = 0;
  for (Fetched& item : run.items) {
    if (begun++ == turn_items) {
      begun = 1;
      co_await endpoint->turn();
    }
    const uint64_t size = item.place.size;
    if (here) {
      const bool more_follow = &item != &run.items.back() || (batch.reader_->left() != 0 && batch.may_begin());
      const Bytes bytes = Bytes(lease->bytes()).subspan(at, size);
      // Alone in the run, it keeps the memory that it was fetched into.
      auto own = run.items.size() == 1 ? std::optional(std::move(*lease)) : batch.copied(bytes);
      batch.write_fetched(shared, item, own ? &*own : nullptr, more_follow);
    } else {
      batch.write_alone(shared,
                        item);  // a failure affects only this item; put_object() checks that the key still exists
    }
    at += size;
  }
}

// A copy in memory of its own, if memory is free now.
std::optional<memory::Lease> WriteBatch::copied(Bytes bytes) const {
  auto lease = lease_now(bytes.size());
  if (lease) copy_bytes(lease->data(), bytes);
  return lease;
}

// The key may have been removed while the bytes were fetched. `fetched`: its bytes, at the beginning; null: there was
// no memory for them.
void WriteBatch::write_fetched(const Shared& shared, Fetched& item, memory::Lease* fetched, bool more_follow) {
  const uint64_t size = item.place.size;
  if (!still_allowed()) {
    return stored(item.index, fail(Errc::access_denied, "native: the session's key"), item.bucket, item.key, size);
  }
  if (fetched != nullptr) {
    const Bytes bytes = fetched->bytes().first(size);
    s3::PutNow put{.bucket = item.bucket,
                   .key = item.key,
                   .headers = item.headers,
                   .expected = item.expected,
                   .bytes = {std::move(*fetched), bytes},
                   .more_follow = more_follow};
    if (store_now(shared, item.index, put, size) != s3::PutNowOutcome::wait) return;
  }
  write_alone(shared, item);
}

void WriteBatch::write_alone(const Shared& shared, Fetched& item) {
  s3::PutRequest request;
  request.bucket.assign(item.bucket);
  request.key = std::move(item.key);
  request.md5_etag = false;
  request.conditions.wanted = op_->wanted();
  request.expected = std::move(item.expected);
  request.headers = std::move(item.headers);
  boost::asio::co_spawn(op_->endpoint->core().io(),
                        write(shared, caller_, item.index, std::move(request), {}, item.place), boost::asio::detached);
}

// Only if memory is free now; read_chunk() of s3/objects/ingest waits for it.
std::optional<memory::Lease> WriteBatch::lease_now(size_t size) const {
  memory::Arena& arena = op_->endpoint->door().service.arena;
  memory::Share share(arena, caller_->peer_address, size);
  auto charge = share.try_take(size);
  if (!charge || charge->bytes() < size) return std::nullopt;
  auto lease = arena.lease(size);
  if (!lease) return std::nullopt;
  lease->attach(std::move(*charge));
  return std::move(*lease);
}

// The item's bytes, if they are available without waiting.
std::optional<memory::Chunk> WriteBatch::bytes_at_hand() {
  const wire::BatchPlace& place = item_.place;
  fabric::Window* const window = from_window() ? windows_[place.window].get() : nullptr;
  auto lease = lease_now(window == nullptr ? item_.inline_bytes.size() : place.size);
  if (!lease) return std::nullopt;
  const MutableBytes bytes = lease->bytes();
  if (window == nullptr) {
    copy_bytes(bytes.data(), item_.inline_bytes);
  } else if (!window->read_now(bytes, place.offset)) {
    return std::nullopt;
  }
  return memory::Chunk{std::move(*lease), bytes};
}

// Writes a small item without a coroutine. `wait`: nothing was done, and write() is to be called.
s3::PutNowOutcome WriteBatch::write_now(const Shared& shared, size_t index) {
  auto bytes = bytes_at_hand();
  if (!bytes) return s3::PutNowOutcome::wait;
  s3::PutNow put{.bucket = reader_->head().buckets[item_.bucket],
                 .key = item_.key,
                 .headers = headers(),
                 .expected = expected(),
                 .bytes = std::move(*bytes),
                 .more_follow = reader_->left() != 0 && may_begin()};
  return store_now(shared, index, put, from_window() ? item_.place.size : 0);
}

s3::PutNowOutcome WriteBatch::store_now(const Shared& shared, size_t index, s3::PutNow& put, uint64_t window_bytes) {
  put.wanted = op_->wanted();
  put.executor = op_->endpoint->core().io().get_executor();
  // The key is valid while put_now() runs, and needed only if requests are observed.
  put.then = [shared, index, bucket = put.bucket, key = op_->is_told() ? std::string(put.key) : std::string(),
              window_bytes](Result<store::ObjectInfo>&& info) {
    (*shared)->write->stored(index, std::move(info), bucket, key, window_bytes);
  };
  return s3::put_now(op_->endpoint->door().service, *caller_, put);
}

bool WriteBatch::may_begin() const {
  return taken_ - told_ != ahead_max && (running_ == 0 || op_->endpoint->may_write(*op_->stream->client));
}

// Begins the writes in order, as many at once as allowed; the last one to finish replies.
Task<void> WriteBatch::dispatch(Shared shared) {
  WriteBatch& batch = *(*shared)->write;
  const std::shared_ptr<Endpoint> endpoint = (*shared)->endpoint;
  size_t begun = 0;
  uint64_t bytes = 0;
  // Yields to what arrived earlier.
  if (!endpoint->may_serve_at_once()) co_await endpoint->turn();
  endpoint->took_turn(turn_items * 16, 0);  // a write costs about as much as so many look-ups
  Deadline turn_until = deadline_in(turn_time);
  // If the client is gone, or its timeout has passed, no further item is begun; those in progress finish.
  for (auto now = SteadyClock::now();
       batch.reader_->left() != 0 && !batch.op_->stream->closed && now < batch.op_->until; now = SteadyClock::now()) {
    if (!batch.may_begin()) {
      batch.fetch_run(shared);
      if (batch.running_ != 0) {
        co_await batch.ended_->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      }
      continue;
    }
    batch.begin_next(shared);
    bytes += std::max<uint64_t>(batch.item_.place.size, batch.item_.inline_bytes.size());
    if (++begun == turn_items || bytes >= turn_bytes || now >= turn_until) {
      begun = 0;
      bytes = 0;
      co_await endpoint->turn();
      turn_until = deadline_in(turn_time);
    }
  }
  batch.fetch_run(shared);
  while (batch.running_ != 0) {
    co_await batch.ended_->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  batch.finish();
  OpPtr op = std::move(*shared);
  endpoint->reply(std::move(op));
}

Task<void> WriteBatch::write(Shared shared, CallerPtr caller, size_t index, s3::PutRequest request, Bytes inline_bytes,
                             wire::BatchPlace place) {
  WriteBatch& batch = *(*shared)->write;
  Op& op = **shared;
  Endpoint& endpoint = *op.endpoint;
  s3::Service& service = endpoint.door().service;
  const std::string bucket = request.bucket, key = request.key;
  Result<s3::PutReply> stored;
  // Zero bytes need no window: some devices drop transfers of nothing.
  const bool from_window = place.window != wire::no_window && place.size != 0;
  if (from_window) {
    auto part = std::make_unique<WindowPart>(batch.windows_[place.window], place.offset, place.size);
    rdma::WindowSource source(std::move(part), place.size, op.operation_deadline());
    if (request.conditions.if_none_match == "*") {
      AbsentSource absent(service.store, bucket, key, source);
      stored = co_await s3::put_object(service, *caller, std::move(request), absent);
    } else {
      stored = co_await s3::put_object(service, *caller, std::move(request), source);
    }
  } else {
    InlineSource source(inline_bytes);
    stored = co_await s3::put_object(service, *caller, std::move(request), source);
  }
  Result<store::ObjectInfo> info;
  if (stored) {
    info = std::move(stored->info);
  } else {
    info = std::unexpected(stored.error());
  }
  batch.stored(index, std::move(info), bucket, key, from_window ? place.size : 0);
}

void WriteBatch::stored(size_t index, Result<store::ObjectInfo> info, std::string_view bucket, std::string_view key,
                        uint64_t window_bytes) {
  Written written;
  written.done = true;
  if (info) {
    written.size = info->size;
    written.modified_us = info->modified_us;
    written.etag = std::move(info->etag);
    written.version = std::move(info->version_id);
    Metrics& metrics = op_->endpoint->door().metrics;
    (window_bytes != 0 ? metrics.window_in : metrics.inline_in).add(written.size);
  } else {
    written.code = wire_code(info.error().code);
  }
  complete(index, std::move(written), bucket, key);
}

Task<void> WriteBatch::remove(Shared shared, CallerPtr caller, size_t index, std::string bucket, std::string key,
                              store::RemoveRequest request) {
  WriteBatch& batch = *(*shared)->write;
  Op& op = **shared;
  auto removed = co_await s3::delete_object(op.endpoint->door().service, *caller, bucket, key, std::move(request));
  Written written;
  written.done = true;
  if (removed) {
    written.version = std::move(removed->version_id);
  } else {
    written.code = wire_code(removed.error().code);
  }
  batch.complete(index, std::move(written), bucket, key);
}

void WriteBatch::complete(size_t index, Written written, std::string_view bucket, std::string_view key) {
  op_->moved.in += written.size;
  Endpoint::Item item{
      .bucket_name = bucket, .key = key, .version = written.version, .outcome = written.code, .in = written.size};
  const auto& buckets = reader_->head().buckets;
  while (buckets[item.bucket] != bucket) ++item.bucket;
  if (is_put() && written.code == Errc::ok) item.object_size = written.size;
  op_->endpoint->account(*op_, item);
  ahead_[index - told_] = std::move(written);
  while (!ahead_.empty() && ahead_.front().done) {
    tell(ahead_.front());
    ahead_.pop_front();
    ++told_;
  }
  op_->endpoint->end_write(*op_->stream->client);
  --running_;
  ended_->cancel();
}

// Later entries need the space reserved for them: if it is short, ETag and version are left out, never the outcome.
void WriteBatch::tell(const Written& written) {
  const uint8_t details = reader_->head().details;
  wire::BatchEntry entry;
  entry.code = written.code;
  entry.length = entry.object_size = written.size;
  entry.modified_us = written.modified_us;
  entry.etag = written.etag;
  entry.version = written.version;
  const size_t before = out_->size();
  const size_t behind = (reader_->head().count - told_ - 1) * entry_size_min;
  if (encode(*out_, entry, details) && out_->left() >= behind) return;
  out_->rewind(before);
  entry.etag = entry.version = {};
  encode(*out_, entry, details);
}

void WriteBatch::finish() {
  wire::Writer head(op_->body_space().first(wire::batch_reply_head_size));
  wire::encode_batch_reply_head(head, reader_->head().details, static_cast<uint16_t>(told_));
  op_->body_size = wire::batch_reply_head_size + out_->size();
  op_->endpoint->door().metrics.batch_items.add(told_);
  end();
}

}  // namespace verbena::native
