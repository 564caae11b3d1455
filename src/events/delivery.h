// The delivery of one target's events, on a thread of its own. If servers share a store, only the leader delivers; all
// of them count the backlog.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "events/stuck_events.h"
#include "events/target.h"
#include "s3/events/event_queues.h"
#include "store/store.h"

namespace verbena::events {

class Delivery {
 public:
  struct Options {
    std::chrono::milliseconds retry_first{100}, retry_most{30'000};  // after a failure, doubled with each
    size_t events_max = 64, bytes_max = 1 * MiB;                     // of one batch
    size_t page_max = 1000, held_bytes_max = 16 * MiB;               // events of one read; bytes of all pages
    // For a store that servers share: the number of this server's current term as leader, in which only it delivers; 0:
    // it is not the leader. Called before each message.
    std::function<uint64_t()> on_duty{};
    std::chrono::milliseconds look_every{1'000};  // there: the interval of reading what other servers left or delivered
  };
  // Makes the target, given the loop that runs it.
  using MakeTarget = std::function<std::expected<std::unique_ptr<Target>, std::string>()>;
  static std::expected<std::unique_ptr<Delivery>, std::string> make(store::Store& store, s3::EventQueues& queues,
                                                                    std::string name, const MakeTarget& make_target,
                                                                    Options options);
  ~Delivery() { stop(); }
  Delivery(const Delivery&) = delete;

  // Counts the store's waiting events: before the first new one. Blocks.
  Result<void> load();
  void start();
  // Waiting events stay in the store. begin_stop() does not wait.
  void begin_stop();
  void stop();

  // Thread-safe, as the rest below.
  const std::string& name() const { return name_; }
  bool delivers() const { return !options_.on_duty || options_.on_duty() != 0; }
  std::vector<StuckEvent> stuck() const { return stuck_.list(); }

  // An operator's request to drop an event; one at a time. The thread executes it as soon as it is not busy with a
  // batch.
  struct Skip {
    enum class State : uint8_t { asked, begun, done };
    uint64_t bucket = 0, event = 0;
    std::string who{};  // for the log
    std::atomic<State> state{State::asked};
    Result<std::string> record = std::string();  // the result: the dropped event
  };
  using SkipPtr = std::shared_ptr<Skip>;
  // For a stuck event. False: another request is pending.
  bool ask(const SkipPtr& skip);
  // False: its execution has begun.
  bool take_back(const SkipPtr& skip);

 private:
  // refused: the target answers and refuses the event; failed: it does not answer; unread: the store does not give the
  // events, which says nothing of the target.
  enum class Outcome : uint8_t { nothing, delivered, refused, unread, failed };
  // The delivery of one bucket's events.
  struct Course {
    std::deque<store::QueuedEvent> page{};  // read at one moment, still to be delivered
    uint64_t behind = 0;                    // the last delivered event
    std::chrono::milliseconds retry{0};     // after a refusal or a failure: other buckets' events are not delayed by it
    size_t singly = 0;                      // this many are sent one by one, to find the refused one of a batch
    bool unread = false;                    // the store did not give the next events at the last try
    SteadyClock::time_point not_before{};   // the next try
  };
  Delivery(store::Store& store, s3::EventQueues& queues, std::string name, Options options);
  void loop();
  // For a store that servers share: whether there is something to deliver here.
  bool has_work();
  // Pages belong to one term as leader: another server may have delivered their events since.
  bool lost_duty() const { return options_.on_duty && (term_ == 0 || options_.on_duty() != term_); }
  bool ends() const { return stop_ || lost_duty(); }
  Outcome tried_round();
  Outcome round();
  Outcome deliver(uint64_t bucket, Course& course);
  Result<void> read_page(uint64_t bucket, Course& course);
  void forget_page(Course& course);
  void forget_pages();
  bool remove(uint64_t bucket, Course& course, size_t delivered);
  void tell(const Result<void>& delivered, size_t confirmed);
  void tell_unread(uint64_t bucket, Course& course, const Result<void>& read);
  void tell_stuck(uint64_t bucket, const store::QueuedEvent& event, const Error& error);
  void skip_what_was_asked();
  Result<std::string> let_go(const Skip& skip);
  // False: to stop. Returns early for an event to be dropped, unless that must wait.
  bool sleep(std::chrono::milliseconds time, bool whatever_is_asked = false);

  store::Store& store_;
  s3::EventQueues& queues_;
  const std::string name_;
  const Options options_;
  boost::asio::io_context io_{1};
  std::unique_ptr<Target> target_;
  std::map<uint64_t, Course> courses_;  // by bucket, of those with events
  size_t held_bytes_ = 0;               // of all their pages
  uint64_t term_ = 0;                   // the leader's term in which the pages were read
  uint64_t looked_in_ = 0;              // the last term at whose beginning it was looked for what waits
  uint64_t reached_ = 0;                // the last bucket served: others come next
  bool failing_ = false;
  SteadyClock::time_point next_look_{};
  StuckEvents stuck_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  SkipPtr asked_;
  std::atomic<bool> skip_asked_{false};  // whether a request is pending, checked during a round
  std::condition_variable woken_;        // by a stop or by asked_
  std::thread thread_;
};

}  // namespace verbena::events
