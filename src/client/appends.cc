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
  name.append(bucket).append(1, '/').append(key);
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
  log->waiting.push_back({.call = std::move(call), .number = ++log->added});
  if (!log->sending) return pump(lock, log);
  left_.wait(lock, [&] { return !log->sending || log->waiting.size() <= waiting_max; });
}

void Appends::flush(const std::string& bucket, const std::string& key) {
  if (logs_open_.load(std::memory_order_relaxed) == 0) return;
  Lock lock(mutex_);
  const auto found = logs_.find(name_of(bucket, key));
  if (found == logs_.end()) return;
  const LogPtr log = found->second;
  const uint64_t last = log->added;
  ++log->flushing;
  pump(lock, log);
  left_.wait(lock, [&] { return !log->sending && (log->waiting.empty() || log->waiting.front().number > last); });
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
  if (log.under_way == 0 || log.flushing != 0 || log.waiting.size() > waiting_max) return count;
  // A message that was refused goes again call by call. At the end, wherever that is, others would have come before
  // them by then: so nothing else is under way beside it.
  if (at_end(first.call.options)) return 0;
  const bool is_whole = count < log.waiting.size() || count == calls_max ||
                        bytes + log.waiting[count - 1].call.from.size() > message_bytes_max;
  return is_whole || log.under_way < under_way_max ? count : 0;
}

// Sends what may leave, one message after the other. The lock is not held meanwhile.
void Appends::pump(Lock& lock, const LogPtr& log) {
  if (log->sending) return;
  log->sending = true;
  while (const size_t count = next_message(*log)) {
    const auto message = std::make_shared<Message>();
    message->calls.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      message->calls.push_back(std::move(log->waiting.front()));
      log->waiting.pop_front();
    }
    log->sent = std::max(log->sent, message->calls.back().number);
    ++log->under_way;
    lock.unlock();
    send(log, message);
    lock.lock();
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
  auto done = [this, log, message](Outcome<PutReply> outcome) { landed(log, message, std::move(outcome)); };
  if (message->calls.size() == 1) return ways_.send(log->bucket, log->key, first, first.from.bytes(), std::move(done));
  std::vector<std::byte> bytes;
  bytes.reserve(message_bytes_max);
  for (const Waiting& one : message->calls) {
    const auto more = one.call.from.bytes();
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  ways_.send(log->bucket, log->key, first, bytes, std::move(done));
}

// On whatever thread brings answers: only what cannot wait is done here. Until the rest is done the message counts as
// under way.
void Appends::landed(const LogPtr& log, const MessagePtr& message, Outcome<PutReply> outcome) {
  bool is_all = false;
  {
    const Lock lock(mutex_);
    is_all = message->calls.size() == 1 && log->waiting.empty();
    if (is_all) --log->under_way;
    forget_idle(log);
  }
  if (is_all) {
    return ways_.answered(log->bucket, log->key, std::move(message->calls.front().call), std::move(outcome));
  }
  message->outcome = std::move(outcome);
  ways_.post([this, log, message] { finish(log, message); });
}

void Appends::finish(const LogPtr& log, const MessagePtr& message) {
  {
    Lock lock(mutex_);
    --log->under_way;
    const bool again = goes_again(*log, *message);
    if (again) put_back(*log, *message);
    pump(lock, log);  // what waits is not to wait for the completions
    if (again) return;
  }
  answer(*log, *message);
}

// Not where a later one has left for the object's end: the order would be another one.
bool Appends::goes_again(const Log& log, const Message& message) {
  if (message.calls.size() == 1 || message.outcome || !is_of_the_whole(message.outcome.error())) return false;
  return !at_end(message.calls.front().call.options) || log.sent == message.calls.back().number;
}

// Before all that was added later, whichever of several messages was refused first.
void Appends::put_back(Log& log, Message& message) {
  for (Waiting& one : message.calls) one.by_itself = true;
  const auto later = [&](const Waiting& one) { return one.number > message.calls.back().number; };
  const auto place = std::ranges::find_if(log.waiting, later);
  log.waiting.insert(place, std::make_move_iterator(message.calls.begin()),
                     std::make_move_iterator(message.calls.end()));
}

// What the object had with each call's bytes at its end, as if it had come alone. Nothing of `this` is touched once a
// completion has run: it may let go of the client.
void Appends::answer(const Log& log, Message& message) {
  if (!message.outcome) {
    for (Waiting& one : message.calls) ways_.answered(log.bucket, log.key, std::move(one.call), message.outcome);
    return;
  }
  uint64_t behind = 0;
  for (const Waiting& one : message.calls) behind += one.call.from.size();
  for (Waiting& one : message.calls) {
    const uint64_t size = one.call.from.size();
    behind -= size;
    PutReply reply = *message.outcome;
    reply.object_size -= std::min(reply.object_size, behind);
    reply.transfer.bytes = size;
    one.call.done(std::move(reply));
  }
}

}  // namespace verbena::client
