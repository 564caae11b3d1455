// The session's messages on one link, that is to one of the server's cores. Holds the requests in flight and
// their sequence numbers and keys, and decides which thread polls the link.
//
// The link may be used only by the thread that holds the mutex. One thread leads: it polls for all. A thread that waits
// for its own reply leads if no other does; else it sleeps until its call is finished or the leader hands over. While
// asynchronous calls are in flight and no other thread leads, the stream's progress thread does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/polite_spin.h"
#include "base/sleep_cost.h"
#include "client/native/call.h"
#include "client/native/staging.h"

namespace verbena::client {

class NativeStream {
 public:
  struct Setup {
    NativeEndpoint endpoint;
    uint64_t session = 0;
    native::wire::StreamKeys keys;
    uint32_t credits = 0;
    std::chrono::microseconds spin_for{100};
    bool trace_context = false;  // the server accepts a trace context after bodies
  };
  NativeStream(std::unique_ptr<fabric::Link> link, Setup setup);
  ~NativeStream();  // close() must have been called
  NativeStream(const NativeStream&) = delete;

  // Writes a request. `prepare` runs under the lock, once there is a credit: it lends the memory that the call needs,
  // returns the flags and writes the body.
  struct Body {
    native::wire::Writer& out;
    fabric::Link& link;
    NativeStaging& staging;
    uint8_t flags = 0;
  };
  using Prepare = std::function<Result<void>(Body&)>;

  // Sends a request and waits until the call is done; the result is its outcome.
  Result<void> run(NativeCall& call, const Prepare& prepare);
  // For callers with several requests in flight. Sends; waits for a credit only if `patient`, because a caller that
  // holds a credit must not wait for another. would_block: no credit is free, nothing was sent. A call that was sent
  // must be driven until it is done.
  Result<void> post(NativeCall& call, const Prepare& prepare, bool patient);
  // Polls until the call is done or `until` is reached; does not poll while another thread does. True if it is done.
  bool drive(NativeCall& call, Deadline until);
  bool is_done(NativeCall& call);
  // For a caller that cannot wait for a call that it has posted: ends it as a timeout does, if it is not done. The
  // answer is ignored, and what was lent is withdrawn when this returns.
  void abandon(NativeCall& call);
  // Sends; the completion comes later, or, when sending fails, before this returns.
  void start(std::unique_ptr<AsyncCall> call, const Prepare& prepare);

  // Sends a stream's first request.
  Result<void> hello(Deadline deadline, const std::stop_token& stop = {});
  // Sends BYE, ends the calls in flight with `closed`, joins the progress thread. Must not be called in a completion.
  void close();

  // Sends a WATCH_END without waiting for its answer.
  void end_watch(uint64_t watch);

  // The memory of a device whose DEVICE, of that request, was given up before its answer: the number by which the
  // server knows it since, once. Waits for the answer until then. 0: the server does not have it; would_block: there is
  // no answer yet. With `forget` this is the last question: what the answer names is ended when it comes.
  Result<uint64_t> late_device(uint64_t request, Deadline until, bool forget);

  Result<StagingBlock> allocate(size_t size);
  void release(StagingBlock block, bool reusable);

  bool broken() const { return broken_.load(std::memory_order_relaxed); }
  const NativeEndpoint& endpoint() const { return setup_.endpoint; }
  size_t message_size_max() const { return message_size_max_; }
  std::string_view provider() const { return provider_; }
  bool reaches_devices() const { return reaches_devices_; }  // of GPUs of this host

 private:
  using Lock = std::unique_lock<std::mutex>;
  Lock enter();
  void let_in(Lock& lock);
  Result<void> submit(Lock& lock, NativeCall& call, const Prepare& prepare);
  Result<void> take_turn(Lock& lock, const NativeCall& call);
  Result<void> write(Lock& lock, NativeCall& call, const Prepare& prepare);
  void free_slot(NativeCall& call);
  std::vector<uint32_t>& free_for(const NativeCall& call);
  Result<void> transmit(Lock& lock, NativeCall& call, uint8_t flags, size_t body_size);
  Result<void> take_slot(Lock& lock, NativeCall& call);
  void add_trace(const NativeCall& call, Body& body) const;
  void await(Lock& lock, NativeCall& call);
  template <class Until>
  void lead(Lock& lock, Until until, Deadline awake_by = Deadline::max());
  void pass_lead();
  void poll_once();
  void receive(Bytes message);
  void receive_late(const native::wire::Header& header, Bytes body);
  void receive_late_device(uint64_t request, Bytes body);
  void send_end(Lock& lock, native::wire::Type type, uint64_t number);
  void say_bye_at_once();
  void end_unwanted(Lock& lock);
  enum class Answer { came, missing };
  void finish(NativeCall& call, Result<void> outcome, Answer answer);
  static bool leave(Lock& lock, NativeCall& call);
  std::vector<std::unique_ptr<AsyncCall>> take_finished();
  void expire(Deadline now);
  void break_off(Error why);
  void fire(Lock& lock);
  void progress_thread();
  void start_progress_thread();

  const Setup setup_;
  std::unique_ptr<fabric::Link> link_;
  std::string provider_;
  const size_t message_size_max_;
  const bool reaches_devices_;

  std::mutex mutex_;
  std::atomic<unsigned> entering_{0};    // threads that wait for the mutex
  std::atomic<bool> link_waits_{false};  // the leader sleeps inside the link, holding the mutex
  std::atomic<bool> broken_{false};

  // Guarded by the mutex:
  // Calls by the low half of the request id; nullptr: free. The slots of the credits come first, then those of
  // WATCH_NEXTs, which use no credit while they wait: made on demand.
  std::vector<NativeCall*> slots_;
  std::vector<uint32_t> free_slots_, free_watch_slots_;
  uint32_t generation_ = 0;  // the high half
  std::condition_variable slot_freed_;
  std::vector<std::byte> buffer_;  // of the message being sent
  bool buffer_waits_ = false;      // it holds a message that the link does not accept yet
  std::condition_variable buffer_free_;
  // Watches on the server without a user here, still to be ended.
  std::vector<uint64_t> unwanted_;
  // DEVICEs that were given up, and devices' memory whose owner is gone, to be ended.
  struct LateDevice {
    uint64_t request = 0, number = 0;
    bool answered = false, unwanted = false;
  };
  std::vector<LateDevice> late_devices_;
  uint64_t last_sequence_ = 0;
  native::wire::ReplayWindow seen_;
  uint64_t received_ = 0;
  bool led_ = false;
  Deadline last_progress_{};
  PoliteSpin spin_;
  SleepCost sleep_cost_;
  size_t async_in_flight_ = 0;
  std::vector<std::unique_ptr<AsyncCall>> finished_;  // to be completed without the lock
  NativeStaging staging_;
  bool closing_ = false;
  std::condition_variable progress_wanted_;
  std::thread progress_;
};

}  // namespace verbena::client
