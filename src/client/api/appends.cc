#include "client/api/appends.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace verbena::client {
namespace {

// Messages in flight before further calls wait: one that the server commits, and one that is ready when it has.
constexpr size_t under_way_max = 2;
constexpr size_t calls_max = 256;     // of one message
constexpr size_t waiting_max = 1024;  // of a key; beyond them a caller that adds waits for messages to leave

bool at_end(const PutOptions& options) { return *options.append_at == append_at_end; }

// True when `next` starts where `one` ends.
bool follows(const AsyncPut& one, const AsyncPut& next) {
  if (at_end(one.options) || at_end(next.options)) return at_end(one.options) && at_end(next.options);
  return *next.options.append_at == *one.options.append_at + one.from.size();
}

// Refusals that concern the total size or the offset; the server did nothing. The calls one by one may succeed.
bool is_of_the_whole(const ClientError& error) {
  constexpr std::string_view codes[] = {"InvalidWriteOffset", "QuotaExceeded", "EntityTooLarge", "TooManyParts"};
  return std::ranges::find(codes, error.s3_code) != std::end(codes);
}

}  // namespace

bool Appends::may_join(const AsyncPut& call) {
  const PutOptions& options = call.options;
  if (!options.append_at || call.from.size() == 0 || call.from.size() > message_bytes_max / 2) return false;
  return options.content_type.empty() && options.metadata.empty() && options.headers.empty() &&
         options.if_match.empty() && options.if_none_match.empty() && options.ttl.count() == 0 &&
         options.checksum.empty() && !options.md5_etag && !options.describe;
}

class Appends::Wish {
 public:
  Wish(Appends& appends, const std::stop_token& stop) : appends_(appends), callback_(stop, Heard{*this}) {}

 private:
  friend class Appends;
  struct Heard {
    Wish& wish;
    void operator()() const { wish.appends_.wished(wish); }
  };
  Appends& appends_;
  LogPtr log_;  // null until the call has been added
  uint64_t number_ = 0;
  bool is_early_ = false;
  std::stop_callback<Heard> callback_;  // constructed last: cancellation is reported from here on
};

Appends::Waiting::Waiting(AsyncPut given, uint64_t its_number, std::unique_ptr<Wish> its_wish)
    : call(std::move(given)), size(call.from.size()), number(its_number), wish(std::move(its_wish)) {}
Appends::Waiting::Waiting(Waiting&&) noexcept = default;
Appends::Waiting& Appends::Waiting::operator=(Waiting&&) noexcept = default;
Appends::Waiting::~Waiting() = default;

std::string Appends::name_of(std::string_view bucket, std::string_view key) {
  std::string name;
  name.reserve(bucket.size() + 1 + key.size());
  name.append(bucket).append(1, '\0').append(key);
  return name;
}

void Appends::add(const std::string& bucket, const std::string& key, AsyncPut call) {
  const std::stop_token stop = call.options.cancel;
  auto made = stop.stop_possible() ? std::make_unique<Wish>(*this, stop) : nullptr;
  Wish* const wish = made.get();
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
  log->waiting.emplace_back(std::move(call), number, std::move(made));
  if (wish != nullptr) {
    if (wish->is_early_) {
      lock.unlock();
      return cancel(log, number);
    }
    wish->log_ = log;
    wish->number_ = number;
  }
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
  // Calls that leave by another path take a number, too: this one leaves now.
  log->sent = ++log->added;
  log->flush_to = std::max(log->flush_to, last);
  ++log->flushing;
  pump(lock, log, last);
  left_.wait(lock, [&] { return log->leaving > last && (log->waiting.empty() || log->waiting.front().number > last); });
  --log->flushing;
  forget_idle(log);
}

bool Appends::has(const std::string& bucket, const std::string& key) {
  if (logs_open_.load(std::memory_order_relaxed) == 0) return false;
  const Lock lock(mutex_);
  return logs_.contains(name_of(bucket, key));
}

// Number of waiting calls that form the next message; 0: they keep waiting.
size_t Appends::next_message(const Log& log) {
  if (log.waiting.empty()) return 0;
  const Waiting& first = log.waiting.front();
  if (first.by_itself) return 1;
  size_t count = 1, bytes = first.size;
  while (count < log.waiting.size() && count < calls_max) {
    const Waiting& next = log.waiting[count];
    if (next.by_itself || !follows(log.waiting[count - 1].call, next.call)) break;
    if (bytes + next.size > message_bytes_max) break;
    bytes += next.size;
    ++count;
  }
  const bool is_flushed = first.number <= log.flush_to;
  if (log.under_way.empty() || is_flushed || log.waiting.size() > waiting_max) return count;
  // A refused message is sent again call by call. With appends to the end, later messages would overtake these calls,
  // so no other message is in flight then.
  if (at_end(first.call.options)) return 0;
  const bool is_whole =
      count < log.waiting.size() || count == calls_max || bytes + log.waiting[count - 1].size > message_bytes_max;
  return is_whole || log.under_way.size() < under_way_max ? count : 0;
}

// Takes the first `count` waiting calls as a message in flight.
Appends::MessagePtr Appends::take(Log& log, size_t count) {
  auto message = std::make_shared<Message>();
  message->calls.reserve(count);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes += log.waiting.front().size;
    message->calls.push_back(std::move(log.waiting.front()));
    log.waiting.pop_front();
  }
  const Waiting& first = message->calls.front();
  message->options.append_at = first.call.options.append_at;
  message->bytes = first.call.from.bytes();
  if (count > 1 || first.wish != nullptr) {
    message->own.reserve(bytes);
    for (const Waiting& one : message->calls) {
      const auto more = one.call.from.bytes();
      message->own.insert(message->own.end(), more.begin(), more.end());
    }
    message->bytes = message->own;
  }
  log.under_way.push_back(message);
  return message;
}

// Sends messages as long as any may leave, without the lock. Returns once call `until` has left, because other threads
// may add without end.
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
    const MessagePtr message = take(*log, count);
    log->sent = std::max(log->sent, message->calls.back().number);
    is_left = until != nobody && message->calls.back().number >= until;
    log->leaving = message->calls.front().number;
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
  if (!log->waiting.empty() || !log->under_way.empty() || log->sending || log->flushing != 0) return;
  const auto found = logs_.find(name_of(log->bucket, log->key));
  if (found != logs_.end() && found->second == log) logs_.erase(found);
  logs_open_.store(logs_.size(), std::memory_order_relaxed);
}

void Appends::send(const LogPtr& log, const MessagePtr& message) {
  auto done = [this, log, message](Outcome<PutReply> outcome) { landed(log, message, std::move(outcome)); };
  ways_.send(log->bucket, log->key, message->options, message->bytes, std::move(done));
}

// Runs on the thread that brings the answer, so only short work is done here; finish() does the rest, and the message
// counts as in flight until then. Committed calls complete at once, before further messages are sent.
void Appends::landed(const LogPtr& log, const MessagePtr& message, Outcome<PutReply> outcome) {
  message->outcome = std::move(outcome);
  const bool committed = message->outcome.has_value();
  bool is_all = false;
  {
    const Lock lock(mutex_);
    is_all = message->calls.size() == 1 && log->waiting.empty() && (committed || log->under_way.size() == 1);
    if (is_all) std::erase(log->under_way, message);
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
    std::erase(log->under_way, message);
    const bool again = goes_again(*log, *message);
    if (again) put_back(*log, *message);
    pump(lock, log);  // waiting calls do not wait for the completions
    if (again || message->outcome) return;
  }
  answer(*log, *message);
}

// False for an append to the end when a later message has left: the order would change. A single call is repeated only
// when it was refused because calls before it were, and those are repeated.
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

// Inserts the calls before all that were added later, whichever message was refused first.
void Appends::put_back(Log& log, Message& message) {
  const uint64_t last = message.calls.back().number;
  std::erase_if(message.calls, [](const Waiting& one) { return one.cancelled; });
  for (Waiting& one : message.calls) one.by_itself = true;
  const auto later = [&](const Waiting& one) { return one.number > last; };
  const auto place = std::ranges::find_if(log.waiting, later);
  log.waiting.insert(place, std::make_move_iterator(message.calls.begin()),
                     std::make_move_iterator(message.calls.end()));
}

// Completes each call with the size that the object had after its bytes, as if it had been sent alone. Each call is
// moved into its completion, so that the thread that brought the answer keeps nothing of it.
void Appends::answer(const Log& log, Message& message) {
  std::vector<Waiting> calls;
  {
    const Lock lock(mutex_);
    calls = std::move(message.calls);
  }
  uint64_t behind = 0;
  for (const Waiting& one : calls) behind += one.size;
  for (Waiting& one : calls) {
    behind -= one.size;
    if (one.cancelled) continue;
    Outcome<PutReply> outcome = message.outcome;
    if (outcome) {
      outcome->object_size -= std::min(outcome->object_size, behind);
      outcome->transfer.bytes = one.size;
    }
    one.wish.reset();  // cancellation after the outcome is ignored
    ways_.answered(log.bucket, log.key, std::move(one.call), std::move(outcome));
  }
}

void Appends::wished(Wish& wish) {
  LogPtr log;
  uint64_t number = 0;
  {
    const Lock lock(mutex_);
    wish.is_early_ = true;
    log = wish.log_;
    number = wish.number_;
  }
  if (log != nullptr) cancel(log, number);  // `wish` may be destroyed after this
}

// Removes a waiting call; a call in a message is marked cancelled there. Neither: the call has its outcome already.
void Appends::cancel(const LogPtr& log, uint64_t number) {
  std::optional<AsyncPut> call;
  std::unique_ptr<Wish> wish;
  const auto is_it = [&](const Waiting& one) { return one.number == number && !one.cancelled; };
  const auto take_from = [&](auto& calls) {
    const auto found = std::ranges::find_if(calls, is_it);
    if (found == calls.end()) return found;
    call = std::move(found->call);
    wish = std::move(found->wish);
    found->cancelled = true;
    return found;
  };
  {
    const Lock lock(mutex_);
    if (const auto found = take_from(log->waiting); call) log->waiting.erase(found);
    for (const MessagePtr& message : log->under_way) {
      if (!call) take_from(message->calls);
    }
    left_.notify_all();
    forget_idle(log);
    if (!call) return;
    ++answering_;
  }
  ClientError why{.code = ErrorCode::cancelled, .message = "cancelled by the caller"};
  ways_.answered(log->bucket, log->key, std::move(*call), std::unexpected(std::move(why)));
  const Lock lock(mutex_);
  --answering_;
  left_.notify_all();
}

void Appends::wait_for_cancelled() {
  Lock lock(mutex_);
  left_.wait(lock, [&] { return answering_ == 0; });
}

}  // namespace verbena::client
