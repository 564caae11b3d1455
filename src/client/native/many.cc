#include "client/native/many.h"

#include <algorithm>
#include <memory>

#include "client/native/device_memory.h"
#include "client/native/many_message.h"
#include "client/native/match.h"
#include "client/retry.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

constexpr size_t in_flight_max = 4;  // messages of one batch on one stream: the next is served while one is answered
// Reads for one core are split into two messages: while the server handles one, the other is written and answers are
// read. Writes share a sync of the log if they come together.
constexpr size_t half_min = 64;
// A batch in order is one message after the other on each stream: messages that are served together share the
// connection, and the last items would come as early as the first. The next one is sent when half of the bytes are
// left, or so many. The first is small, and each has twice the bytes of the one before: what a server has been asked
// for it sends as fast as the connection's buffers take it, and on a host that it shares with the client it does so
// instead of the client's work on what came first.
constexpr uint64_t left_of_ordered = 1 * MiB, first_of_ordered = 512 * KiB;
constexpr std::chrono::microseconds short_while{200}, long_while{2000};  // polling of one stream before the next

class ManyRun {
 public:
  ManyRun(NativeStreams& streams, ManyCall& call)
      : streams_(streams), call_(call), deadline_(deadline_in(call.timeout)) {
    call_.answered.resize(call_.items.size(), 0);
  }
  // What `in_order` throws, or want of memory, leaves messages in flight: their streams know them, and the server their
  // windows in the caller's memory.
  ~ManyRun() {
    for (const auto& message : messages_) message->withdraw();
  }
  ManyRun(const ManyRun&) = delete;

  Result<void> run() {
    distribute();
    VB_TRY(share_devices());
    auto patience = deadline_in(short_while);
    for (;;) {
      send();
      if (messages_.empty()) break;
      const bool brief = call_.in_order || SteadyClock::now() < patience;
      const bool moved = wait(brief ? short_while : long_while);
      if (moved) patience = deadline_in(short_while);
      tell_order();
    }
    tell_order();
    return outcome_;
  }

 private:
  // Queues each item for the core that owns it.
  void distribute() {
    for (uint32_t i = 0; i < call_.items.size(); ++i) {
      if (call_.answered[i] != 0 || !call_.may_ask_again(i)) continue;
      NativeStream& stream = stream_of(call_.items[i]);
      auto queue = std::ranges::find(queues_, &stream, &ManyQueue::stream);
      if (queue == queues_.end()) {
        queues_.emplace_back().stream = &stream;
        queue = std::prev(queues_.end());
        if (call_.in_order) queue->bytes_max = first_of_ordered;
      }
      queue->items.push_back(i);
    }
    const bool reads = call_.type == wire::Type::get_many || call_.type == wire::Type::head_many;
    if (!reads || queues_.size() != 1) return;
    ManyQueue& queue = queues_.front();
    if (queue.items.size() >= 2 * half_min) queue.items_max = (queue.items.size() + 1) / 2;
  }

  // Before any message is in flight: a caller that holds a credit must not wait for another.
  Result<void> share_devices() {
    for (ManyQueue& queue : queues_) {
      queue.device_numbers.resize(call_.devices.size());
      for (size_t i = 0; i < call_.devices.size(); ++i) {
        const NativeDevice* const shared = call_.devices[i] == nullptr ? nullptr : call_.devices[i]->device();
        if (shared == nullptr) continue;
        VB_ASSIGN(queue.device_numbers[i], shared->number_on(streams_, *queue.stream, deadline_));
      }
    }
    return {};
  }

  // A lease is of one core.
  NativeStream& stream_of(const BatchItem& item) {
    if (call_.take != nullptr && call_.take->lease != 0) return streams_.of_core(ClientLease::core(call_.take->lease));
    if (call_.lease != 0) return streams_.of_core(ClientLease::core(call_.lease));
    const BatchItem& which = call_.take != nullptr ? call_.items.front() : item;
    return streams_.stream_of(which.bucket, which.key);
  }
  // Further messages join the lease of the first one.
  bool waits_for_lease() const { return call_.take != nullptr && !messages_.empty() && call_.take->lease == 0; }

  // Sends as many messages as may be in flight. Never waits for a credit while holding some: two callers could
  // deadlock.
  void send() {
    for (ManyQueue& queue : queues_) {
      while (outcome_ && !queue.items.empty() && has_turn(queue) && !waits_for_lease()) {
        auto message = std::make_unique<ManyMessage>(call_, queue);
        messages_.reserve(messages_.size() + 1);  // once it is posted, nothing may fail
        message->type = call_.type;
        message->deadline = deadline_;
        const auto prepare = [&](NativeStream::Body& body) { return message->prepare(body); };
        auto sent = queue.stream->post(*message, prepare, messages_.empty());
        if (!sent) {
          message->outcome = sent;
          (void)message->settle();  // returns its items to the queue
          if (sent.error() != Errc::would_block) note(sent);
          break;
        }
        ++queue.in_flight;
        if (call_.in_order) queue.bytes_max = std::min(2 * queue.bytes_max, message_bytes_max);
        messages_.push_back(std::move(message));
      }
    }
  }

  bool has_turn(const ManyQueue& queue) const {
    if (queue.in_flight >= in_flight_max) return false;
    return !call_.in_order || std::ranges::all_of(messages_, [&](const auto& message) {
      return &message->queue() != &queue || message->left() <= std::min(message->bytes() / 2, left_of_ordered);
    });
  }

  // Records a failed message. Of several errors of writes, one after which writes may have happened wins: a refused
  // message could be repeated.
  void note(const Result<void>& failed) {
    const bool writes = call_.type == wire::Type::put_many || call_.type == wire::Type::delete_many;
    if (outcome_ || (writes && may_have_happened(failed.error()) && !may_have_happened(outcome_.error())))
      outcome_ = failed;
  }

  // Waits for one of the messages. True: at least one answer came.
  bool wait(std::chrono::nanoseconds most) {
    const bool alone = messages_.size() == 1 && !call_.in_order;
    const Deadline until = alone ? Deadline::max() : deadline_in(most);
    ManyMessage& first = *messages_[next_++ % messages_.size()];
    first.queue().stream->drive(first, until);
    bool moved = false;
    for (size_t i = 0; i < messages_.size();) {
      ManyMessage& message = *messages_[i];
      if (!message.queue().stream->is_done(message)) {
        ++i;
        continue;
      }
      moved = true;
      --message.queue().in_flight;
      auto settled = message.settle();
      if (!settled) note(settled);
      // Items whose bytes arrived without an answer are requested again, and reported to the caller when that is
      // answered.
      if (!here_.empty()) message.forget_unanswered(here_);
      messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(i));
    }
    return moved;
  }

  void tell_order() {
    if (!call_.in_order) return;
    if (here_.empty()) here_.resize(call_.items.size());
    for (const auto& message : messages_) {
      const size_t arrived = message->arrived();
      for (size_t i = 0; i < arrived; ++i) here_[message->item(i)] = 1;
    }
    const size_t before = call_.told;
    size_t& leading = call_.told;
    while (leading < here_.size() && (here_[leading] != 0 || call_.answered[leading] != 0)) ++leading;
    if (leading == before) return;
    for (const auto& message : messages_) message->note_told(leading);
    call_.in_order(leading);
  }

  NativeStreams& streams_;
  ManyCall& call_;
  const Deadline deadline_;
  std::deque<ManyQueue> queues_;
  std::vector<std::unique_ptr<ManyMessage>> messages_;  // in flight
  size_t next_ = 0;
  std::vector<uint8_t> here_;
  Result<void> outcome_;
};

}  // namespace

bool names_its_bytes(const BatchItem& item) {
  const bool version = !item.version_id.empty() && item.version_id != "null";
  const bool etag = !item.if_match.empty() && item.if_match != "*";
  return version || etag;
}

bool ManyCall::may_ask_again(size_t item) {
  if (item >= told || names_its_bytes(items[item])) return true;
  results[item].error = ErrorCode::connection_failed;
  results[item].bytes = results[item].size = 0;
  results[item].etag.clear();
  results[item].version_id.clear();
  answered[item] = 1;
  return false;
}

Result<void> run_many(NativeStreams& streams, ManyCall& call) {
  if (streams.version() < 2) return fail(Errc::unsupported, "native: the server knows no batches");
  if (streams.version() < wire::version_of_match) call.lease = 0;
  if (call.take != nullptr) {
    if (streams.version() < wire::version_of_batch_leases)
      return fail(Errc::unsupported, "native: leases of a match only");
    if (call.taken_from != nullptr && call.taken_from != &streams) {
      return fail(Errc::timed_out, "native: the lease ended with its session");
    }
    const auto stream_of = [&](uint64_t lease) { return &streams.of_core(ClientLease::core(lease)); };
    if (call.lease != 0 && call.take->lease != 0 && stream_of(call.lease) != stream_of(call.take->lease)) {
      return fail(Errc::invalid_argument, "native: leases of two cores in one batch");
    }
  }
  auto done = ManyRun(streams, call).run();
  if (call.take != nullptr && call.take->lease != 0) call.taken_from = &streams;
  return done;
}

}  // namespace verbena::client
