// Appends that do not wait for each other's answers. Adjacent appends to one key are joined into fewer messages: while
// messages are in flight, further calls wait and are sent as one when an answer arrives or a message is full. Each call
// still has its own outcome.
//
// Calls leave in the order in which they came. A message of several calls is one append on the server, done wholly or
// not at all. When it is refused for its total (an offset, a quota, a size), its calls are sent again one by one, in
// order; any other failure, certain or not, is the outcome of each call.
//
// A cancelled call has its outcome at once. Its message, if in flight, goes on for the other calls, with a copy of the
// bytes.
//
// Thread-safe. A thread that adds, or that brings an answer, may send for other threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "client/ordered_work.h"
#include "verbena/client.h"

namespace verbena::client {

// An asynchronous put.
struct AsyncPut {
  Buffer from;
  PutOptions options;
  Callback<PutReply> done;
  bool inline_done = false;  // as of Client::Impl::put_async()
  // Of an append by the native door: before later ones, if it has to go by another door.
  OrderedWork::Place place{};
};

class Appends {
 public:
  struct Ways {
    // Sends one message without waiting for its answer. The bytes live until the callback has returned, which may be
    // before this returns and on any thread.
    std::function<void(const std::string& bucket, const std::string& key, const PutOptions& options, Bytes bytes,
                       Callback<PutReply> done)>
        send;
    // Runs a function on a thread reserved for this that may block: one after the other, in this order.
    std::function<void(std::function<void()>)> post;
    // Completes a call. Must not block.
    std::function<void(const std::string& bucket, const std::string& key, AsyncPut call, Outcome<PutReply> outcome)>
        answered;
  };
  explicit Appends(Ways ways) : ways_(std::move(ways)) {}
  Appends(const Appends&) = delete;

  // Bytes of one message. Larger messages would delay waiting calls by more than they save.
  static constexpr size_t message_bytes_max = 4 * KiB;

  // True when the call may share a message: it gives the position, and no other property of the object.
  static bool may_join(const AsyncPut& call);
  // Adds a call for which may_join() is true. Blocks only where sending does. Cancellation is honoured from here on.
  void add(const std::string& bucket, const std::string& key, AsyncPut call);
  // Sends all calls added for this key before it returns: for calls on the key that take another path.
  void flush(const std::string& bucket, const std::string& key);
  // Whether calls of this key wait or are in flight.
  bool has(const std::string& bucket, const std::string& key);
  // Of a key, for tables of keys.
  static std::string name_of(std::string_view bucket, std::string_view key);
  // Waits until no cancelling thread is still completing a call: required before Ways are destroyed.
  void wait_for_cancelled();

 private:
  struct Log;
  using LogPtr = std::shared_ptr<Log>;
  // A call's cancellation request, delivered on the cancelling thread. Destroyed without the mutex: the destructor
  // waits for a running delivery.
  class Wish;
  struct Waiting {
    Waiting(AsyncPut given, uint64_t its_number, std::unique_ptr<Wish> its_wish);
    Waiting(Waiting&&) noexcept;
    Waiting& operator=(Waiting&&) noexcept;
    ~Waiting();
    AsyncPut call;
    size_t size = 0;
    uint64_t number = 0;  // of the key's calls, in order
    bool by_itself = false;
    bool cancelled = false;      // and completed: only its size still counts
    std::unique_ptr<Wish> wish;  // set for calls that can be cancelled
  };
  struct Message {
    std::vector<Waiting> calls;
    std::vector<std::byte> own;  // a copy of the bytes: of calls that can be cancelled, or of several calls
    Bytes bytes;
    PutOptions options;
    Outcome<PutReply> outcome;
  };
  using MessagePtr = std::shared_ptr<Message>;
  static constexpr uint64_t nobody = ~uint64_t{0};
  // State of one key while any of its calls waits or is in flight.
  struct Log {
    std::string bucket, key;
    std::deque<Waiting> waiting;
    uint64_t added = 0, sent = 0;  // numbers: of the last call added, the highest that has left
    uint64_t flush_to = 0;         // calls up to this number do not wait for answers
    uint64_t leaving = nobody;     // number of the first call that is being sent
    std::vector<MessagePtr> under_way;
    size_t flushing = 0;   // callers of flush()
    bool sending = false;  // one thread sends at a time, which keeps the order
  };
  using Lock = std::unique_lock<std::mutex>;

  static size_t next_message(const Log& log);
  static MessagePtr take(Log& log, size_t count);
  void pump(Lock& lock, const LogPtr& log, uint64_t until = nobody);
  void send(const LogPtr& log, const MessagePtr& message);
  void landed(const LogPtr& log, const MessagePtr& message, Outcome<PutReply> outcome);
  void finish(const LogPtr& log, const MessagePtr& message);
  static bool goes_again(const Log& log, const Message& message);
  static void put_back(Log& log, Message& message);
  void answer(const Log& log, Message& message);
  void wished(Wish& wish);
  void cancel(const LogPtr& log, uint64_t number);
  void forget_idle(const LogPtr& log);

  const Ways ways_;
  std::mutex mutex_;
  std::condition_variable left_;  // a message has left; a cancelled call has been answered
  size_t answering_ = 0;          // threads that are cancelling
  std::unordered_map<std::string, LogPtr> logs_;
  std::atomic<size_t> logs_open_{0};
};

}  // namespace verbena::client
