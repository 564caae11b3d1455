// Appends that do not wait for each other's answers. Those of one key that lie one behind the other leave as fewer
// messages: while some are under way, what is asked for meanwhile waits, and goes as one when there is an answer or
// when a message is full. Each call has its own outcome all the same.
//
// Calls leave in the order in which they came. A message of several is one append to the server: all of it is done or
// nothing. Where it was refused for what the whole asked for (an offset, a quota, a size), its calls go again one by
// one, in order; any other failure is that of each of them, known or not.
//
// A call that is cancelled has its outcome at once. If its message is under way that goes on, for the others: it has
// the bytes of its own.
//
// Thread-safe. Whoever adds, or brings an answer, may find itself sending for others.
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
#include "verbena/client.h"

namespace verbena::client {

// A put that nobody waits for.
struct AsyncPut {
  Buffer from;
  PutOptions options;
  Callback<PutReply> done;
  bool inline_done = false;  // as of Client::Impl::put_async()
};

class Appends {
 public:
  struct Ways {
    // Sends one message and does not wait for its answer. The bytes live until its callback has come and gone. That may
    // be before this returns, on any thread.
    std::function<void(const std::string& bucket, const std::string& key, const PutOptions& options, Bytes bytes,
                       Callback<PutReply> done)>
        send;
    // Runs it on a thread that may wait, and that waits for nothing else: one after the other, in this order.
    std::function<void(std::function<void()>)> post;
    // A call has its outcome; what is to be done with that takes no time.
    std::function<void(const std::string& bucket, const std::string& key, AsyncPut call, Outcome<PutReply> outcome)>
        answered;
  };
  explicit Appends(Ways ways) : ways_(std::move(ways)) {}
  Appends(const Appends&) = delete;

  // Bytes of one message. More would keep what is asked for waiting longer than it saves.
  static constexpr size_t message_bytes_max = 4 * KiB;

  // Whether it may share a message with others: it says where it goes, and nothing else of the object.
  static bool may_join(const AsyncPut& call);
  // Such a one. Blocks only where sending does. What it says of cancelling is listened to from here on.
  void add(const std::string& bucket, const std::string& key, AsyncPut call);
  // What was added for this key before has left when this returns: for calls on the key that come another way.
  void flush(const std::string& bucket, const std::string& key);
  // When this returns nobody who cancels a call is still about to tell its outcome: before what tells it goes.
  void wait_for_cancelled();

 private:
  struct Log;
  using LogPtr = std::shared_ptr<Log>;
  // Hears of a call's wish to end, on the thread that wishes. Goes without the mutex: it waits for who is heard just
  // then.
  class Wish;
  struct Waiting {
    Waiting(AsyncPut given, uint64_t its_number, std::unique_ptr<Wish> its_wish);
    Waiting(Waiting&&) noexcept;
    Waiting& operator=(Waiting&&) noexcept;
    ~Waiting();
    AsyncPut call;
    size_t size = 0;
    uint64_t number = 0;  // of the key's calls, in their order
    bool by_itself = false;
    bool cancelled = false;      // and answered: what is left is its size
    std::unique_ptr<Wish> wish;  // of one that can be cancelled
  };
  struct Message {
    std::vector<Waiting> calls;
    std::vector<std::byte> own;  // what calls have lent only until they are cancelled, or several of them
    Bytes bytes;
    PutOptions options;
    Outcome<PutReply> outcome;
  };
  using MessagePtr = std::shared_ptr<Message>;
  static constexpr uint64_t nobody = ~uint64_t{0};
  // Of one key, while something of it waits or is under way.
  struct Log {
    std::string bucket, key;
    std::deque<Waiting> waiting;
    uint64_t added = 0, sent = 0;  // numbers: of the last that was added, of the highest that has left
    uint64_t flush_to = 0;         // up to this number nothing waits for answers
    uint64_t leaving = nobody;     // number of the first that is just being sent
    std::vector<MessagePtr> under_way;
    size_t flushing = 0;   // callers of flush()
    bool sending = false;  // a thread sends: one at a time, which keeps the order
  };
  using Lock = std::unique_lock<std::mutex>;

  static std::string name_of(std::string_view bucket, std::string_view key);
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
  size_t answering_ = 0;          // threads that cancel
  std::unordered_map<std::string, LogPtr> logs_;
  std::atomic<size_t> logs_open_{0};
};

}  // namespace verbena::client
