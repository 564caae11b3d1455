#include "native/key_watches.h"

#include <bit>

#include "native/endpoint.h"
#include "native/key_watch.h"
#include "native/wire/watch.h"
#include "s3/access/access.h"

namespace verbena::native {

using namespace std::chrono_literals;

namespace {

constexpr auto wait_max = 60s;

// The part of a prefix by which its watches are indexed: all of a short prefix, else a multiple of a quarter of the
// power of two below its length. So a key needs some forty look-ups at most; the watches found are compared in full.
size_t indexed_length(size_t length) {
  if (length <= 16) return length;
  const int coarse = static_cast<int>(std::bit_width(length)) - 3;
  return length >> coarse << coarse;
}

std::string_view index_of(const std::string& prefix) {
  return std::string_view(prefix).substr(0, indexed_length(prefix.size()));
}

}  // namespace

KeyWatches::KeyWatches(Endpoint& endpoint, std::shared_ptr<DoorState> door)
    : endpoint_(endpoint),
      alive_(endpoint.weak_from_this()),
      door_(std::move(door)),
      notes_(notes_bytes_max, [this] { call_core(); }) {}

KeyWatches::~KeyWatches() { door_->metrics.watches.add(-static_cast<int64_t>(watches_.size())); }

KeyWatches::WatchPtr KeyWatches::find(const SessionStream& stream, uint64_t watch) const {
  const auto found = watches_.find(stream.watches_from + watch);
  return found == watches_.end() || found->second->stream.get() != &stream ? nullptr : found->second;
}

std::string KeyWatches::bucket_of(const SessionStream& stream, uint64_t watch) const {
  const auto found = find(stream, watch);
  return found == nullptr ? std::string() : found->bucket_name;
}

Result<KeyWatches::BucketWatches*> KeyWatches::listen(const store::BucketFeedPtr& feed) {
  BucketWatches& bucket = buckets_[feed->bucket()];
  if (bucket.feed != nullptr) return &bucket;
  notes_.add_bucket(feed->bucket());
  if (feed->listen(shared_from_this())) {
    bucket.feed = feed;
    return &bucket;
  }
  notes_.remove_bucket(feed->bucket());
  buckets_.erase(feed->bucket());
  return fail(Errc::no_such_bucket);
}

// Only with the right to it, so that unauthorized clients cost the bucket's writers nothing.
Result<KeyWatches::WatchPtr> KeyWatches::make(Op& op, s3::WatchRight right) {
  DoorState& door = *door_;
  if (op.stream->closed) return fail(Errc::closed, "native: the session is gone");
  if (door.options.feeds == nullptr) return fail(Errc::not_implemented, "native: this store cannot report changes");
  if (op.stream->watches >= wire::stream_watches_max) return fail(Errc::slow_down, "native: too many watches");
  auto watch = std::make_shared<Watch>();
  VB_ASSIGN(watch->place, door.watch_limits.take_place(account_of(op), op.caller.peer_address));
  VB_ASSIGN(const store::BucketFeedPtr feed, door.options.feeds->feed(op.bucket));
  if (!feed->is_of(right.created_us, right.owner))
    return fail(Errc::no_such_bucket, "native: a new bucket has its name");
  VB_ASSIGN(BucketWatches* const bucket, listen(feed));
  if (op.stream->watches_from == 0) op.stream->watches_from = last_id_;
  watch->id = ++last_id_;
  watch->stream = op.stream;
  watch->bucket = feed->bucket();
  watch->bucket_name = op.bucket;
  watch->prefix = op.list.prefix;
  watch->right = std::move(right);
  // The map's key is a view into the prefix of the group's first watch.
  const std::string_view index = index_of(watch->prefix);
  auto& by_prefix = bucket->by_length[index.size()];
  auto those = by_prefix.find(index);
  if (those == by_prefix.end()) those = by_prefix.emplace(index, std::vector<WatchPtr>()).first;
  those->second.push_back(watch);
  ++bucket->count;
  watches_.emplace(watch->id, watch);
  ++op.stream->watches;
  door.metrics.watches.add(1);
  return watch;
}

void KeyWatches::forget(const WatchPtr& watch) {
  if (std::exchange(watch->gone, true)) return;
  if (watch->parked) answer_code(*watch, Errc::closed);
  watches_.erase(watch->id);
  --watch->stream->watches;
  door_->metrics.watches.add(-1);
  const auto found = buckets_.find(watch->bucket);
  BucketWatches& bucket = found->second;
  const auto length = bucket.by_length.find(indexed_length(watch->prefix.size()));
  auto those = length->second.extract(index_of(watch->prefix));
  std::erase(those.mapped(), watch);
  // The map's key must be a view into the prefix of a remaining watch.
  if (!those.mapped().empty()) {
    those.key() = index_of(those.mapped().front()->prefix);
    length->second.insert(std::move(those));
  } else if (length->second.empty()) {
    bucket.by_length.erase(length);
  }
  watch->place.reset();
  if (--bucket.count != 0) return;
  bucket.feed->stop_listening(*this);
  notes_.remove_bucket(watch->bucket);
  buckets_.erase(found);
}

void KeyWatches::forget(SessionStream& stream) {
  if (stream.watches == 0) return;
  std::vector<WatchPtr> those;
  for (const auto& [id, watch] : watches_) {
    if (watch->stream.get() == &stream) those.push_back(watch);
  }
  for (const WatchPtr& watch : those) forget(watch);
}

Task<void> KeyWatches::begin(std::shared_ptr<KeyWatches> self, OpPtr op) {
  Endpoint& endpoint = *op->endpoint;
  DoorState& door = endpoint.door();
  const uint64_t generation = op->stream->generation;
  const int64_t now_s = door.service.clock.now_s();
  auto right = co_await s3::authorize_watch(door.service, op->caller, op->bucket, op->list.prefix);
  if (!right) {
    op->fail(right.error().code);
  } else if (const auto made = self->make(*op, std::move(*right)); !made) {
    op->fail(made.error().code);
  } else {
    Watch& watch = **made;
    watch.credentials_generation = generation;
    watch.asked_s = now_s;
    wire::Writer out(op->body_space());
    encode(out, wire::WatchStarted{.watch = watch.id - op->stream->watches_from});
    op->body_size = out.size();
  }
  endpoint.reply(std::move(op));
}

void KeyWatches::next(OpPtr op) {
  const WatchPtr watch = find(*op->stream, op->watching.watch);
  if (watch == nullptr || op->watching.seen > watch->last) {
    op->fail(Errc::invalid_request);
    return endpoint_.reply(std::move(op));
  }
  acknowledge(*watch, op->watching.seen);
  watch->heard = SteadyClock::now();
  watch->deaf = false;
  const auto wait = std::min<std::chrono::milliseconds>(std::chrono::milliseconds(op->watching.wait_ms), wait_max);
  Watch::Parked parked{.header = op->header, .until = SteadyClock::now() + wait};
  op.reset();  // frees its reply buffer, which is not needed while it waits
  // A second request replaces the first.
  if (watch->parked) answer_code(*watch, Errc::request_timeout);
  watch->parked = parked;
  answer(watch);
}

void KeyWatches::end(OpPtr op) {
  const WatchPtr watch = find(*op->stream, op->watching.watch);
  if (watch != nullptr) forget(watch);
  op->fail(watch == nullptr ? Errc::invalid_request : Errc::ok);
  endpoint_.reply(std::move(op));
}

void KeyWatches::sweep() {
  const auto now = SteadyClock::now();
  const Options& options = door_->options;
  std::vector<WatchPtr> late, forgotten;
  for (const auto& [id, watch] : watches_) {
    if (watch->stream->closed || (!watch->parked && now - watch->heard >= options.watch_ends_after)) {
      forgotten.push_back(watch);
    } else if (!watch->parked) {
      if (watch->deaf || now - watch->heard < options.watch_deaf_after) continue;
      watch->deaf = true;
      if (!watch->queue.empty()) let_go(*watch);
    } else if (watch->asking) {
      continue;
    } else if (now >= watch->parked->until) {
      late.push_back(watch);
    } else if (watch->credentials_generation != watch->stream->generation || !is_current(watch->right)) {
      want_right(watch);
    }
  }
  for (const WatchPtr& watch : forgotten) forget(watch);
  for (const WatchPtr& watch : late) answer(watch);
}

Task<void> serve_watch(OpPtr op) {
  auto self = op->endpoint->watches().shared_from_this();
  return KeyWatches::begin(std::move(self), std::move(op));
}

Task<void> serve_watch_next(OpPtr op) {
  op->endpoint->watches().next(std::move(op));
  co_return;
}

Task<void> serve_watch_end(OpPtr op) {
  op->endpoint->watches().end(std::move(op));
  co_return;
}

}  // namespace verbena::native
