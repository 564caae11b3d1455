#include "client/appends.h"

#include <algorithm>
#include <utility>

namespace verbena::client {
namespace {

// Messages that are under way before others wait: one that the server commits, and one that is there when it has.
constexpr size_t under_way_max = 2;
constexpr size_t calls_max = 256;     // of one message
constexpr size_t waiting_max = 1024;  // of a key, before who adds waits for who sends

bool at_end(const PutOptions& options) { return *options.append_at == append_at_end; }

// Whether `next` goes right behind `one`.
bool follows(const AsyncPut& one, const AsyncPut& next) {
  if (at_end(one.options) || at_end(next.options)) return at_end(one.options) && at_end(next.options);
  return *next.options.append_at == *one.options.append_at + one.from.size();
}

// Refusals that are about how much came and where to, of which nothing was done. The calls alone may fare otherwise.
bool is_of_the_whole(const ClientError& error) {
  constexpr std::string_view codes[] = {"InvalidWriteOffset", "QuotaExceeded", "EntityTooLarge", "TooManyParts"};
  return std::ranges::find(codes, error.s3_code) != std::end(codes);
}

}  // namespace

bool Appends::may_join(const AsyncPut& call) {
  const PutOptions& options = call.options;
  if (!options.append_at || call.from.size() == 0 || call.from.size() > message_bytes_max / 2) return false;
  return options.content_type.empty() && options.metadata.empty() && options.if_match.empty() &&
         options.if_none_match.empty() && options.checksum.empty() && !options.md5_etag && !options.describe &&
         !options.cancel.stop_possible();
}

std::string Appends::name_of(std::string_view bucket, std::string_view key) {
  std::string name;
  name.reserve(bucket.size() + 1 + key.size());
  name.append(bucket).append(1, '\0').append(key);
  return name;
}

void Appends::add(const std::string& bucket, const std::string& key, AsyncPut call) {
  Lock lock(mutex_);
  LogPtr& entry = logs_[name_of(bucket, key)];
  if (entry == nullptr) {
    entry = std::make_shared<Log>();
    entry->bucket = bucket;
    entry->key = key;
    logs_open_.store(logs_.size(), std::memory_order_relaxed);
  }
  const LogPtr log = entry;
  const uint64_t number = ++log->added;
  log->waiting.push_back({.call = std::move(call), .number = number});
  if (!log->sending) return pump(lock, log, number);
  left_.wait(lock, [&] { return !log->sending || log->waiting.size() <= waiting_max; });
}

void Appends::flush(const std::string& bucket, const std::string& key) {
  if (logs_open_.load(std::memory_order_relaxed) == 0) return;
  Lock lock(mutex_);
  const auto found = logs_.find(name_of(bucket, key));
  if (found == logs_.end()) return;
  const LogPtr log = found->second;
  const uint64_t last = log->added;
  // What comes another way has a number, too: it leaves now.
  log->sent = ++log->added;
  log->flush_to = std::max(log->flush_to, last);
  ++log->flushing;
  pump(lock, log, last);
  left_.wait(lock, [&] { return log->leaving > last && (log->waiting.empty() || log->waiting.front().number > last); });
  --log->flushing;
  forget_idle(log);
}

// How many of those that wait are the next message; 0: they wait on.
size_t Appends::next_message(const Log& log) {
  if (log.waiting.empty()) return 0;
  const Waiting& first = log.waiting.front();
  if (first.by_itself) return 1;
  size_t count = 1, bytes = first.call.from.size();
  while (count < log.waiting.size() && count < calls_max) {
    const Waiting& next = log.waiting[count];
    if (next.by_itself || !follows(log.waiting[count - 1].call, next.call)) break;
    if (bytes + next.call.from.size() > message_bytes_max) break;
    bytes += next.call.from.size();
    ++count;
  }
  const bool is_flushed = first.number <= log.flush_to;
  if (log.under_way == 0 || is_flushed || log.waiting.size() > waiting_max) return count;
  // A message that was refused goes again call by call. At the end, wherever that is, others would have come before
  // them by then: so nothing else is under way beside it.
  if (at_end(first.call.options)) return 0;
  const bool is_whole = count < log.waiting.size() || count == calls_max ||
                        bytes + log.waiting[count - 1].call.from.size() > message_bytes_max;
  return is_whole || log.under_way < under_way_max ? count : 0;
}

// Sends what may leave, one message after the other. The lock is not held meanwhile. Who calls is let go when `until`
// has left: others may add without end.
void Appends::pump(Lock& lock, const LogPtr& log, uint64_t until) {
  if (log->sending) return;
  log->sending = true;
  bool is_left = false;
  while (const size_t count = next_message(*log)) {
    if (is_left) {
      ways_.post([this, log] {
        Lock again(mutex_);
        pump(again, log);
      });
      break;
    }
    const auto message = std::make_shared<Message>();
    message->calls.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      message->calls.push_back(std::move(log->waiting.front()));
      log->waiting.pop_front();
    }
    log->sent = std::max(log->sent, message->calls.back().number);
    is_left = until != nobody && message->calls.back().number >= until;
    log->leaving = message->calls.front().number;
    ++log->under_way;
    lock.unlock();
    send(log, message);
    lock.lock();
    log->leaving = nobody;
    left_.notify_all();
  }
  log->sending = false;
  left_.notify_all();
  forget_idle(log);
}

void Appends::forget_idle(const LogPtr& log) {
  if (!log->waiting.empty() || log->under_way != 0 || log->sending || log->flushing != 0) return;
  const auto found = logs_.find(name_of(log->bucket, log->key));
  if (found != logs_.end() && found->second == log) logs_.erase(found);
  logs_open_.store(logs_.size(), std::memory_order_relaxed);
}

void Appends::send(const LogPtr& log, const MessagePtr& message) {
  const AsyncPut& first = message->calls.front().call;
  Bytes bytes = first.from.bytes();
  if (message->calls.size() > 1) {
    message->bytes.reserve(message_bytes_max);
    for (const Waiting& one : message->calls) {
      const auto more = one.call.from.bytes();
      message->bytes.insert(message->bytes.end(), more.begin(), more.end());
    }
    bytes = message->bytes;
  }
  auto done = [this, log, message](Outcome<PutReply> outcome) { landed(log, message, std::move(outcome)); };
  ways_.send(log->bucket, log->key, first, bytes, std::move(done));
}

// On whatever thread brings answers: only what cannot wait is done here. Until the rest is done the message counts as
// under way. What is committed is told at once, whatever else is to be sent.
void Appends::landed(const LogPtr& log, const MessagePtr& message, Outcome<PutReply> outcome) {
  message->outcome = std::move(outcome);
  const bool committed = message->outcome.has_value();
  bool is_all = false;
  {
    const Lock lock(mutex_);
    is_all = message->calls.size() == 1 && log->waiting.empty() && (committed || log->under_way == 1);
    if (is_all) --log->under_way;
    forget_idle(log);
  }
  if (!is_all) {
    ways_.post([this, log, message] { finish(log, message); });
    if (!committed) return;
  }
  answer(*log, *message);
}

void Appends::finish(const LogPtr& log, const MessagePtr& message) {
  {
    Lock lock(mutex_);
    --log->under_way;
    const bool again = goes_again(*log, *message);
    if (again) put_back(*log, *message);
    pump(lock, log);  // what waits is not to wait for the completions
    if (again || message->outcome) return;
  }
  answer(*log, *message);
}

// Not where a later one has left for the object's end: the order would be another one. One alone goes again where it
// was refused because those before it were, and they go again.
bool Appends::goes_again(const Log& log, const Message& message) {
  if (message.outcome || !is_of_the_whole(message.outcome.error())) return false;
  const Waiting& first = message.calls.front();
  if (message.calls.size() == 1) {
    const bool is_behind =
        log.leaving < first.number || (!log.waiting.empty() && log.waiting.front().number < first.number);
    return !first.by_itself && is_behind && !at_end(first.call.options);
  }
  return !at_end(first.call.options) || log.sent == message.calls.back().number;
}

// Before all that was added later, whichever of several messages was refused first.
void Appends::put_back(Log& log, Message& message) {
  for (Waiting& one : message.calls) one.by_itself = true;
  const auto later = [&](const Waiting& one) { return one.number > message.calls.back().number; };
  const auto place = std::ranges::find_if(log.waiting, later);
  log.waiting.insert(place, std::make_move_iterator(message.calls.begin()),
                     std::make_move_iterator(message.calls.end()));
}

// Each call, with what the object had when its bytes were at the end, as if it had come alone. The call goes with its
// completion, so that whoever brought the answer holds nothing of it.
void Appends::answer(const Log& log, Message& message) {
  uint64_t behind = 0;
  for (const Waiting& one : message.calls) behind += one.call.from.size();
  for (Waiting& one : message.calls) {
    const uint64_t size = one.call.from.size();
    behind -= size;
    Outcome<PutReply> outcome = message.outcome;
    if (outcome) {
      outcome->object_size -= std::min(outcome->object_size, behind);
      outcome->transfer.bytes = size;
    }
    ways_.answered(log.bucket, log.key, std::move(one.call), std::move(outcome));
  }
}

}  // namespace verbena::client
