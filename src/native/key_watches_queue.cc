// Moves notes into the queues of watches, and queues into answers.
#include <boost/asio/post.hpp>

#include "native/endpoint.h"
#include "native/key_watch.h"
#include "native/wire/watch.h"

namespace verbena::native {
namespace {

constexpr size_t deliveries_at_once = 512;  // into queues; then the core polls its ports again
constexpr size_t answers_at_once = 64;
constexpr size_t notes_at_once = 16;

static_assert(static_cast<uint8_t>(store::KeyEvent::evicted) == wire::key_event_last);  // clients know each kind

}  // namespace

void KeyWatches::told(uint64_t bucket, const store::KeyChangePtr& change) { notes_.told(bucket, change); }
void KeyWatches::lost_track(uint64_t bucket) { notes_.lost_track(bucket); }
void KeyWatches::bucket_removed(uint64_t bucket) { notes_.removed(bucket); }
void KeyWatches::close() { notes_.close(); }

// Called under the notes' lock: after close() the core may be destroyed.
void KeyWatches::call_core() {
  boost::asio::post(endpoint_.core().io(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->wake();
  });
}

void KeyWatches::wake() {
  const auto alive = alive_.lock();
  if (alive == nullptr) return;
  notes_.was_called();
  pump();
  if (busy()) endpoint_.want_polls();
}

size_t KeyWatches::each_of(BucketWatches& bucket, void (KeyWatches::*visit)(Watch&), KeyWatches& self) {
  for (auto& [length, by_prefix] : bucket.by_length) {
    for (auto& [prefix, watches] : by_prefix) {
      for (const WatchPtr& watch : watches) (self.*visit)(*watch);
    }
  }
  return bucket.count;
}

size_t KeyWatches::deliver_next() {
  const auto found = buckets_.find(taken_.bucket);
  if (found == buckets_.end()) {
    taken_ = {};
    return 0;
  }
  if (std::exchange(taken_.lost, false)) return each_of(found->second, &KeyWatches::let_go, *this);
  if (taken_.next < taken_.changes.size()) return deliver(found->second, taken_.changes[taken_.next++]);
  taken_ = {};
  return each_of(found->second, &KeyWatches::bucket_ended, *this);
}

size_t KeyWatches::deliver(BucketWatches& bucket, const store::KeyChangePtr& change) {
  size_t looked_at = 0;
  const std::string_view key = change->key;
  for (const auto& [length, by_prefix] : bucket.by_length) {
    if (length > key.size()) break;
    ++looked_at;
    const auto those = by_prefix.find(key.substr(0, length));
    if (those == by_prefix.end()) continue;
    for (const WatchPtr& watch : those->second) {
      if (key.starts_with(watch->prefix)) push(*watch, change);
    }
    looked_at += those->second.size();
  }
  return looked_at;
}

void KeyWatches::push(Watch& watch, const store::KeyChangePtr& change) {
  if (watch.ended != Errc::ok || (change->of_versions && !watch.right.versions)) return;
  const uint64_t cost = cost_of(*change);
  if (watch.deaf || watch.bytes + cost > queue_bytes_max || !watch.place->take(cost)) return let_go(watch);
  watch.queue.push_back(change);
  watch.bytes += cost;
  ++watch.last;
  mark_ready(watch);
}

void KeyWatches::empty(Watch& watch) {
  watch.place->give_back(std::exchange(watch.bytes, 0));
  std::deque<store::KeyChangePtr>().swap(watch.queue);
}

// Drops the queue to make room; the client is notified that its state may be stale. A new gap each time, since the last
// one may have been reported already.
void KeyWatches::let_go(Watch& watch) {
  if (watch.ended != Errc::ok) return;
  if (watch.gap != 0 && !watch.gap_was_told && watch.queue.empty()) return;
  empty(watch);
  watch.gap = ++watch.last;
  watch.gap_was_told = false;
  door_->metrics.watch_gaps.add();
  mark_ready(watch);
}

// Earlier changes are no longer reported: authorization cannot be evaluated for a removed bucket, and a client without
// rights must not see them.
void KeyWatches::finish(Watch& watch, Errc why) {
  empty(watch);
  watch.gap = 0;
  if (watch.ended == Errc::ok) watch.ended = why;
  mark_ready(watch);
}

void KeyWatches::acknowledge(Watch& watch, uint64_t seen) {
  while (!watch.queue.empty() && watch.last - watch.queue.size() < seen) {
    const uint64_t cost = cost_of(*watch.queue.front());
    watch.place->give_back(cost);
    watch.bytes -= cost;
    watch.queue.pop_front();
  }
  if (watch.gap != 0 && watch.gap <= seen) watch.gap = 0;
}

void KeyWatches::mark_ready(Watch& watch) {
  if (watch.marked || !watch.parked) return;
  const auto found = watches_.find(watch.id);
  if (found == watches_.end()) return;
  watch.marked = true;
  ready_.push_back(found->second);
}

void KeyWatches::pump() {
  for (size_t done = 0; done < deliveries_at_once; ++done) {
    if (taken_.done() && !notes_.take(taken_, notes_at_once)) break;
    done += deliver_next();
  }
  for (size_t done = 0; done < answers_at_once && !ready_.empty(); ++done) {
    const WatchPtr watch = std::move(ready_.front());
    ready_.pop_front();
    watch->marked = false;
    answer(watch);
  }
}

// --- Answers

void KeyWatches::tell(Op& op, Watch& watch) {
  MutableBytes body = op.body_space();
  wire::Writer changes(body.subspan(wire::watch_news_head_size));
  const bool versions = watch.right.versions;
  uint16_t count = 0;
  for (const store::KeyChangePtr& change : watch.queue) {
    // A client that may not list versions sees no delete markers.
    const bool as_removed = change->what == store::KeyEvent::marked && !versions;
    const store::KeyEvent what = as_removed ? store::KeyEvent::removed : change->what;
    const wire::WatchedChange item{.what = static_cast<uint8_t>(what),
                                   .size = change->size,
                                   .time_us = change->time_us,
                                   .key = change->key,
                                   .version = versions ? std::string_view(change->version_id) : "",
                                   .etag = change->etag};
    const size_t before = changes.size();
    if (count == UINT16_MAX || !encode(changes, item)) {
      changes.rewind(before);
      break;
    }
    ++count;
  }
  wire::Writer head(body.first(wire::watch_news_head_size));
  wire::encode_news_head(head, {.gap = watch.gap != 0,
                                .more = count < watch.queue.size(),
                                .upto = watch.last - watch.queue.size() + count,
                                .count = count});
  watch.gap_was_told = true;
  op.body_size = wire::watch_news_head_size + changes.size();
  op.endpoint->door().metrics.watch_changes.add(count);
}

// For an answer that is due now, to a request from before.
OpPtr KeyWatches::take_op(const Watch& watch, const wire::Header& asked) {
  OpPtr op = endpoint_.take_op(*watch.stream, asked);
  op->forget_target();
  op->bucket = watch.bucket_name;
  op->began = ticks();
  return op;
}

void KeyWatches::answer_code(Watch& watch, Errc code) {
  const wire::Header asked = watch.parked->header;
  watch.parked.reset();
  if (watch.stream->closed) return;
  OpPtr op = take_op(watch, asked);
  op->fail(code);
  endpoint_.reply(std::move(op));
}

// Answers a parked request: with changes, or empty after a long enough wait.
void KeyWatches::answer(const WatchPtr& held, bool just_asked) {
  Watch& watch = *held;
  if (watch.gone || !watch.parked || watch.stream->closed || watch.asking) return;
  if (watch.ended != Errc::ok) {
    answer_code(watch, watch.ended);
    return forget(held);
  }
  const bool silent = watch.queue.empty() && watch.gap == 0;
  if (silent && SteadyClock::now() < watch.parked->until) return;
  if (!endpoint_.still_known(*watch.stream)) {
    answer_code(watch, Errc::access_denied);
    return forget(held);
  }
  if (!is_fresh(watch, just_asked)) return want_right(held);
  const wire::Header asked = watch.parked->header;
  watch.parked.reset();
  watch.heard = SteadyClock::now();          // until now it had no need to send a request
  watch.stream->session->used(watch.heard);  // nor was its session idle
  OpPtr op = take_op(watch, asked);
  tell(*op, watch);
  endpoint_.reply(std::move(op));
}

}  // namespace verbena::native
