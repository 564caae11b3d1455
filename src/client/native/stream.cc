#include "client/native/stream.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "client/peer_memory.h"
#include "client/trace_scope.h"
#include "fabric/device.h"
#include "native/wire/batch.h"
#include "native/wire/device.h"
#include "native/wire/watch.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

constexpr std::chrono::milliseconds stream_nap{20};  // interval between checks of deadlines
constexpr std::chrono::milliseconds bye_patience{100};
constexpr std::chrono::milliseconds end_patience{100};

// Whether a device may still be at work in what a call has lent.
bool is_at_work(const NativeCall& call) {
  const auto* const of_device = dynamic_cast<const fabric::DeviceLent*>(call.lent.get());
  return of_device != nullptr && of_device->is_at_work();
}

// As messages carry it: in milliseconds, at least one.
uint32_t timeout_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(left, 1, 0xffffffff));
}

}  // namespace

NativeStream::NativeStream(std::unique_ptr<fabric::Link> link, Setup setup)
    : setup_(std::move(setup)),
      link_(std::move(link)),
      provider_(link_->provider()),
      message_size_max_(std::min<size_t>(link_->message_size_max(), setup_.endpoint.message_size_max)),
      reaches_devices_(client::reaches_devices(*link_)),
      slots_(setup_.credits),
      buffer_(message_size_max_) {
  for (uint32_t slot = setup_.credits; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

NativeStream::~NativeStream() { close(); }

NativeStream::Lock NativeStream::enter() {
  entering_.fetch_add(1);
  if (link_waits_.load()) link_->wake();
  Lock lock(mutex_);
  entering_.fetch_sub(1);
  return lock;
}

// Yields the mutex: a leader that only unlocked and locked again would starve other threads.
void NativeStream::let_in(Lock& lock) {
  if (entering_.load() == 0) return;
  lock.unlock();
  for (int i = 0; i < 64 && entering_.load() != 0; ++i) sched_yield();
  lock.lock();
}

Result<void> NativeStream::run(NativeCall& call, const Prepare& prepare) {
  Lock lock = enter();
  VB_TRY(take_slot(lock, call));
  if (auto sent = submit(lock, call, prepare); !sent) {
    call.lent.reset();
    if (!call.done) free_slot(call);
    fire(lock);
    return sent;
  }
  await(lock, call);
  fire(lock);
  leave(lock, call);
  return call.outcome;
}

Result<void> NativeStream::post(NativeCall& call, const Prepare& prepare, bool patient) {
  Lock lock = enter();
  if (!patient && free_slots_.empty() && !broken_) return fail(Errc::would_block, "native: no credit");
  VB_TRY(take_slot(lock, call));
  auto sent = submit(lock, call, prepare);
  if (!sent) {
    call.lent.reset();
    if (!call.done) free_slot(call);
  }
  fire(lock);
  return sent;
}

bool NativeStream::drive(NativeCall& call, Deadline until) {
  Lock lock = enter();
  if (!call.done && until == Deadline::max()) {
    await(lock, call);
  } else if (!call.done && !led_) {
    led_ = true;
    const auto enough = [&] { return call.done || SteadyClock::now() >= until; };
    lead(lock, enough, until);
    pass_lead();
  } else if (!call.done) {
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  fire(lock);
  return leave(lock, call);
}

bool NativeStream::is_done(NativeCall& call) {
  Lock lock = enter();
  return leave(lock, call);
}

void NativeStream::abandon(NativeCall& call) {
  Lock lock = enter();
  if (!call.done) finish(call, fail(Errc::cancelled, "native: given up by the caller"), Answer::missing);
  fire(lock);
  leave(lock, call);
}

// Whether the call is done. Then it is its caller's again, who waits for a device that is still at work on it, and no
// other thread does.
bool NativeStream::leave(Lock& lock, NativeCall& call) {
  if (!call.done || call.lent == nullptr) return call.done;
  lock.unlock();
  call.lent.reset();
  return true;
}

void NativeStream::start(std::unique_ptr<AsyncCall> call, const Prepare& prepare) {
  Lock lock = enter();
  Result<void> slot;
  try {
    start_progress_thread();  // without it no thread would bring the answer
  } catch (const std::system_error&) {
    slot = fail(Errc::out_of_memory, "native: this process may have no further thread");
  }
  if (slot) slot = take_slot(lock, *call);
  if (!slot) {
    call->outcome = slot;
    finished_.push_back(std::move(call));
    return fire(lock);
  }
  // The slot owns the call from here on, before it is sent: a link that breaks during the send finishes all calls with
  // a slot, this one included, and only finish() hands a call over, once.
  AsyncCall& started = *call.release();
  started.asynchronous = true;
  ++async_in_flight_;
  if (auto sent = submit(lock, started, prepare); !sent && !started.done) {
    started.lent.reset();  // the server does not know of it
    finish(started, sent, Answer::missing);
  }
  if (!led_) progress_wanted_.notify_one();
  fire(lock);
}

// Sends with a slot taken. On failure the call keeps the slot.
Result<void> NativeStream::submit(Lock& lock, NativeCall& call, const Prepare& prepare) {
  call.leaving = true;
  auto sent = take_turn(lock, call);
  if (sent) sent = write(lock, call, prepare);
  call.leaving = false;
  return sent;
}

// Waits until the link accepts messages again.
Result<void> NativeStream::take_turn(Lock& lock, const NativeCall& call) {
  while (buffer_waits_ && !broken_) {
    if (call.stop.stop_requested()) return fail(Errc::cancelled, "native: cancelled by the caller");
    if (SteadyClock::now() >= call.deadline) return fail(Errc::timed_out, "native: the link takes no message");
    buffer_free_.wait_until(lock, std::min(deadline_in(stream_nap), call.deadline));
  }
  if (broken_) return fail(Errc::closed, "native: the session is broken");
  return {};
}

Result<void> NativeStream::write(Lock& lock, NativeCall& call, const Prepare& prepare) {
  wire::Writer out(MutableBytes(buffer_).subspan(wire::header_size, message_size_max_ - wire::frame_size));
  Body body{out, *link_, staging_};
  Result<void> prepared;
  try {
    prepared = prepare(body);
  } catch (const std::bad_alloc&) {  // the call would stay in its slot
    prepared = fail(Errc::out_of_memory, "native: no memory for a request");
  }
  if (prepared && !out.ok()) prepared = fail(Errc::unsupported, "native: request exceeds a message");
  if (prepared) {
    add_trace(call, body);
    return transmit(lock, call, body.flags, out.size());
  }
  // Nothing is lent or allocated on a closed link: break off, so that other callers notice and open another.
  if (prepared.error() == Errc::closed) break_off(prepared.error());
  return prepared;
}

// Appends the trace context if there is room: a request is not refused for its trace.
void NativeStream::add_trace(const NativeCall& call, Body& body) const {
  const ThreadTrace* const trace = thread_trace();
  if (trace == nullptr || !setup_.trace_context || call.type <= wire::Type::bye || wire::is_batch(call.type)) return;
  if (body.out.left() < trace->in_message.size()) return;
  body.out.bytes(trace->in_message);
  body.flags |= wire::flag_trace;
}

void NativeStream::free_slot(NativeCall& call) {
  const auto slot = static_cast<uint32_t>(call.request);
  slots_[slot] = nullptr;
  (slot < setup_.credits ? free_slots_ : free_watch_slots_).push_back(slot);
  slot_freed_.notify_one();
}

// The free list that the call's slot comes from.
std::vector<uint32_t>& NativeStream::free_for(const NativeCall& call) {
  if (call.type != wire::Type::watch_next) return free_slots_;
  if (free_watch_slots_.empty() && slots_.size() < setup_.credits + wire::stream_watches_max) {
    free_watch_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(nullptr);
  }
  return free_watch_slots_;
}

Result<void> NativeStream::take_slot(Lock& lock, NativeCall& call) {
  std::vector<uint32_t>& slots = free_for(call);
  const auto free = [&] { return !slots.empty() || broken_; };
  // A server allows this many watches per session.
  if (call.type == wire::Type::watch_next && !free()) return fail(Errc::slow_down, "native: too many watches");
  // While a slot is taken, some thread leads or the progress thread is about to.
  while (!free()) {
    if (call.stop.stop_requested()) return fail(Errc::cancelled, "native: cancelled by the caller");
    if (SteadyClock::now() >= call.deadline) return fail(Errc::timed_out, "native: no credit");
    const Deadline slice = call.stop.stop_possible() ? deadline_in(stream_nap) : call.deadline;
    slot_freed_.wait_until(lock, std::min(slice, call.deadline), free);
  }
  if (broken_) return fail(Errc::closed, "native: the session is broken");
  const uint32_t slot = slots.back();
  slots.pop_back();
  call.request = uint64_t{++generation_} << 32 | slot;
  slots_[slot] = &call;
  return {};
}

Result<void> NativeStream::transmit(Lock& lock, NativeCall& call, uint8_t flags, size_t body_size) {
  wire::Header header{.type = static_cast<uint8_t>(call.type),
                      .flags = flags,
                      .session = setup_.session,
                      .sequence = ++last_sequence_,
                      .request = call.request,
                      .body_length = static_cast<uint32_t>(body_size)};
  size_t size = 0;
  for (;;) {
    // The server counts the time from when the message comes: what it has waited for here is over by then.
    if (const uint32_t left = timeout_until(call.deadline); size == 0 || left != header.timeout_ms) {
      header.timeout_ms = left;
      size = wire::seal(setup_.keys.to_server, header, buffer_);
    }
    call.received_before = received_;
    auto sent = link_->send(Bytes(buffer_).first(size));
    if (sent) return {};
    if (sent.error() != Errc::would_block) {
      break_off(sent.error());
      return fail(Errc::closed, "native: the link broke", sent.error().sys);
    }
    poll_once();
    if (!broken_) expire(SteadyClock::now());
    if (broken_) return fail(Errc::closed, "native: the link broke");
    if (call.stop.stop_requested()) return fail(Errc::cancelled, "native: cancelled by the caller");
    if (SteadyClock::now() >= call.deadline) return fail(Errc::timed_out, "native: the link takes no message");
    // Other threads go on with their own calls; a thread whose call is answered leaves.
    buffer_waits_ = true;
    lock.unlock();
    sched_yield();
    lock = enter();
    buffer_waits_ = false;
    buffer_free_.notify_one();
    if (broken_) return fail(Errc::closed, "native: the link broke");
  }
}

void NativeStream::await(Lock& lock, NativeCall& call) {
  while (!call.done) {
    if (led_) {
      call.sleeping = true;
      lock.unlock();
      call.state.wait(NativeCall::waiting);
      lock.lock();
      call.sleeping = false;
      if (call.state.load() != NativeCall::lead) continue;
      call.state = NativeCall::waiting;
      if (call.done) {  // finished while the lead was handed to it
        pass_lead();
        return;
      }
    }
    led_ = true;
    const auto until = [&call] { return call.done; };
    lead(lock, until);
    pass_lead();
  }
}

template <class Until>
void NativeStream::lead(Lock& lock, Until until, Deadline awake_by) {
  last_progress_ = SteadyClock::now();
  Deadline looked = last_progress_;
  while (!until() && !broken_) {
    const uint64_t before = received_;
    poll_once();
    if (!unwanted_.empty() || !late_devices_.empty()) [[unlikely]]
      end_unwanted(lock);
    if (!finished_.empty()) fire(lock);
    // Polls again at once, but not for longer than a nap: other threads have deadlines and cancellations, and need the
    // mutex.
    if (received_ != before && last_progress_ - looked < stream_nap) continue;
    const auto now = looked = SteadyClock::now();
    expire(now);
    if (until() || broken_) break;
    if (received_ != before) {
      // More messages may have arrived.
    } else if (now - last_progress_ > sleep_cost_.poll_for(setup_.spin_for) || !spin_.allowed(now)) {
      link_waits_ = true;
      if (entering_.load() == 0) {
        const auto cpu_before = thread_cpu_time();
        link_->wait(std::min(now + stream_nap, awake_by));
        sleep_cost_.add(thread_cpu_time() - cpu_before);
      }
      link_waits_ = false;
    } else {
      spin_.yield(now);
    }
    let_in(lock);
  }
}

// The leader leaves: the next sleeping thread leads, else the progress thread if there is work for it.
void NativeStream::pass_lead() {
  led_ = false;
  for (NativeCall* call : slots_) {
    if (call == nullptr || !call->sleeping || call->state.load() != NativeCall::waiting) continue;
    led_ = true;  // reserved for that thread
    call->state = NativeCall::lead;
    call->state.notify_one();
    return;
  }
  if (async_in_flight_ > 0) progress_wanted_.notify_one();
}

void NativeStream::poll_once() {
  const auto handler = [this](Bytes message) { receive(message); };
  auto polled = link_->poll(handler);
  if (!polled) return break_off(polled.error());
  if (*polled != 0) last_progress_ = SteadyClock::now();
}

// Ignores anything that is not exactly the reply to one of our requests.
void NativeStream::receive(Bytes message) {
  const auto header = wire::parse_header(message, message_size_max_);
  if (!header || header->session != setup_.session) return;
  if (!wire::mac_matches(setup_.keys.to_client, message) || !seen_.accept(header->sequence)) return;
  ++received_;
  if (header->type == (static_cast<uint8_t>(wire::Type::bye) | wire::reply_bit)) {
    return break_off({.code = Errc::closed, .sys = 0, .context = "native: the server ended the session"});
  }
  const uint64_t slot = header->request & 0xffffffff;
  if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->request != header->request ||
      slots_[slot]->leaving) {
    return receive_late(*header, wire::body_of(message));
  }
  NativeCall& call = *slots_[slot];
  if (header->type != (static_cast<uint8_t>(call.type) | wire::reply_bit)) return;
  const Bytes body = wire::body_of(message);
  const auto code = wire::decode_error(body);
  if (!code) {
    finish(call, fail(Errc::malformed, "native: reply"), Answer::came);
  } else if (*code != Errc::ok) {
    finish(call, fail(*code, "native: the server's answer"), Answer::came);
  } else {
    finish(call, call.answered(body), Answer::came);
  }
}

// Handles the answer to an abandoned request. If it began a watch, the watch must be ended; what it says of a device's
// memory is kept for its owner.
void NativeStream::receive_late(const wire::Header& header, Bytes body) {
  if (header.type == (static_cast<uint8_t>(wire::Type::device) | wire::reply_bit)) {
    return receive_late_device(header.request, body);
  }
  if (header.type != (static_cast<uint8_t>(wire::Type::watch) | wire::reply_bit)) return;
  if (const auto begun = wire::decode_watch_started(body); begun && unwanted_.size() < wire::stream_watches_max) {
    unwanted_.push_back(begun->watch);
  }
}

void NativeStream::receive_late_device(uint64_t request, Bytes body) {
  const auto given_up = std::ranges::find(late_devices_, request, &LateDevice::request);
  if (given_up == late_devices_.end()) return;
  const auto code = wire::decode_error(body);
  const auto shared = code && *code == Errc::ok ? wire::decode_device_shared(body) : std::nullopt;
  given_up->answered = true;
  given_up->number = shared ? shared->number : 0;
  if (given_up->number == 0 && given_up->unwanted) late_devices_.erase(given_up);
}

Result<uint64_t> NativeStream::late_device(uint64_t request, Deadline until, bool forget) {
  Lock lock = enter();
  const auto find = [&] { return std::ranges::find(late_devices_, request, &LateDevice::request); };
  const auto come = [&] {
    const auto found = find();
    return found == late_devices_.end() || found->answered || SteadyClock::now() >= until;
  };
  while (!broken_ && !come()) {
    if (led_) {
      lock.unlock();
      sched_yield();
      lock.lock();
      continue;
    }
    led_ = true;
    lead(lock, come, until);
    pass_lead();
  }
  fire(lock);
  const auto found = find();
  if (broken_ || found == late_devices_.end()) return 0;
  if (!found->answered) {
    found->unwanted = forget;
    return fail(Errc::would_block, "native: no answer yet");
  }
  const uint64_t number = found->number;
  late_devices_.erase(found);
  return number;
}

// Must not run inside a poll: a message that waits to be sent occupies the buffer.
void NativeStream::end_unwanted(Lock& lock) {
  if (buffer_waits_) return;
  for (const uint64_t watch : std::exchange(unwanted_, {})) send_end(lock, wire::Type::watch_end, watch);
  const auto ends = [](const LateDevice& one) { return one.unwanted && one.answered; };
  for (auto one = std::ranges::find_if(late_devices_, ends); one != late_devices_.end();
       one = std::ranges::find_if(late_devices_, ends)) {
    const uint64_t number = one->number;
    late_devices_.erase(one);
    send_end(lock, wire::Type::device_end, number);
  }
}

// Its answer is ignored. If it is lost, a watch ends by itself, unused, and a device's memory with the session.
void NativeStream::send_end(Lock& lock, wire::Type type, uint64_t number) {
  if (broken_ || buffer_waits_) return;
  CodeCall end;
  end.type = type;
  end.request = ~uint64_t{0};  // no slot
  end.deadline = deadline_in(end_patience);
  wire::Writer out(MutableBytes(buffer_).subspan(wire::header_size, message_size_max_ - wire::frame_size));
  if (type == wire::Type::watch_end) {
    encode(out, wire::WatchEnd{.watch = number});
  } else {
    encode(out, wire::DeviceEnd{number});
  }
  (void)transmit(lock, end, 0, out.size());
}

void NativeStream::end_watch(uint64_t watch) {
  Lock lock = enter();
  if (closing_ || broken_) return;
  unwanted_.push_back(watch);
  end_unwanted(lock);
  fire(lock);
}

void NativeStream::finish(NativeCall& call, Result<void> outcome, Answer answer) {
  call.outcome = outcome;
  // From here on nothing lands in the caller's memory. Without an answer, an operation may still be running.
  if (call.lent != nullptr && answer == Answer::missing) call.lent->revoke();
  if (!is_at_work(call)) call.lent.reset();
  if (answer == Answer::missing && call.type == wire::Type::device) late_devices_.push_back({.request = call.request});
  free_slot(call);
  call.done = true;
  if (call.asynchronous) {
    if (call.lent == nullptr) --async_in_flight_;
    finished_.emplace_back(static_cast<AsyncCall*>(&call));
  } else if (call.sleeping && call.state.load() == NativeCall::waiting) {
    call.state = NativeCall::finished;
    call.state.notify_one();
  }
}

void NativeStream::expire(Deadline now) {
  bool revoked = false;
  for (NativeCall* call : slots_) {
    if (call == nullptr || call->leaving) continue;
    if (call->stop.stop_requested()) {
      revoked = revoked || call->lent != nullptr;
      finish(*call, fail(Errc::cancelled, "native: cancelled by the caller"), Answer::missing);
      continue;
    }
    if (call->deadline > now) continue;
    // No message since it was sent: the server may have forgotten the session.
    if (call->received_before == received_ && !call->patient) broken_ = true;
    revoked = revoked || call->lent != nullptr;
    finish(*call, fail(Errc::timed_out, "native: no answer in time"), Answer::missing);
  }
  // Withdrawing a window may have closed the link's connections: a poll shows it now.
  if (revoked && !broken_) poll_once();
  if (!broken_) return;
  say_bye_at_once();
  break_off({.code = Errc::closed, .sys = 0, .context = "native: the server is silent"});
}

// To a server that may only be slow: what it has not done yet of this stream's changes it does not do any more, while
// their callers go another way. The message that is being sent, if any, keeps the stream's buffer.
void NativeStream::say_bye_at_once() {
  std::array<std::byte, wire::frame_size> message;
  const wire::Header bye{.type = static_cast<uint8_t>(wire::Type::bye),
                         .session = setup_.session,
                         .sequence = ++last_sequence_,
                         .timeout_ms = 1};
  const size_t size = wire::seal(setup_.keys.to_server, bye, message);
  (void)link_->send(Bytes(message).first(size));
}

void NativeStream::break_off(Error why) {
  broken_ = true;
  for (NativeCall* call : slots_) {
    if (call == nullptr || call->leaving) continue;
    finish(*call, fail(Errc::closed, why.context, why.sys), Answer::missing);
  }
  slot_freed_.notify_all();
  buffer_free_.notify_all();
}

// Those to be completed now: calls with a device at work stay, and whichever thread leads looks again. On a broken
// stream no thread leads any more.
std::vector<std::unique_ptr<AsyncCall>> NativeStream::take_finished() {
  const auto stays = [this](const auto& call) { return !broken_ && is_at_work(*call); };
  std::vector<std::unique_ptr<AsyncCall>> taken = std::exchange(finished_, {});
  if (std::ranges::any_of(taken, stays)) {
    const auto rest = std::ranges::stable_partition(taken, std::not_fn(stays));
    std::ranges::move(rest, std::back_inserter(finished_));
    taken.erase(rest.begin(), rest.end());
  }
  for (const auto& call : taken) {
    if (call->lent != nullptr) --async_in_flight_;
  }
  return taken;
}

// Runs the completions of finished calls, outside the lock.
void NativeStream::fire(Lock& lock) {
  for (auto batch = take_finished(); !batch.empty(); batch = take_finished()) {
    lock.unlock();
    for (auto& call : batch) {
      call->lent.reset();
      call->settle(*call);
      if (call->outcome) {
        call->complete(std::move(call->object));
      } else {
        call->complete(std::unexpected(call->outcome.error()));
      }
    }
    batch.clear();
    lock.lock();
  }
}

void NativeStream::start_progress_thread() {
  if (!progress_.joinable()) progress_ = std::thread([this] { progress_thread(); });
}

void NativeStream::progress_thread() {
  Lock lock(mutex_);
  while (!closing_) {
    if (led_ || async_in_flight_ == 0 || broken_) {
      progress_wanted_.wait(lock);
      continue;
    }
    led_ = true;
    const auto until = [this] {
      if (async_in_flight_ == 0 || closing_) return true;
      // A waiting caller polls with less delay than waking it costs.
      return std::ranges::any_of(slots_, [](NativeCall* call) { return call != nullptr && call->sleeping; });
    };
    lead(lock, until);
    fire(lock);
    pass_lead();
  }
}

Result<void> NativeStream::hello(Deadline deadline, const std::stop_token& stop) {
  CodeCall call;
  call.type = wire::Type::hello;
  call.deadline = deadline;
  call.stop = stop;
  const auto prepare = [this](Body& body) -> Result<void> {
    const std::string address = link_->address();
    const wire::Hello hello{.message_size_max = static_cast<uint32_t>(message_size_max_), .address = address};
    encode(body.out, hello);
    return {};
  };
  return run(call, prepare);
}

void NativeStream::close() {
  Lock lock = enter();
  if (closing_) return;
  closing_ = true;
  if (!broken_ && !buffer_waits_) {
    CodeCall bye;
    bye.type = wire::Type::bye;
    bye.deadline = deadline_in(bye_patience);
    (void)transmit(lock, bye, 0, 0);
  }
  break_off({.code = Errc::closed, .sys = 0, .context = "native: the session was closed"});
  fire(lock);
  staging_.clear();
  progress_wanted_.notify_all();
  std::thread progress = std::move(progress_);
  lock.unlock();
  if (progress.joinable()) progress.join();
}

Result<StagingBlock> NativeStream::allocate(size_t size) {
  Lock lock = enter();
  if (broken_) return fail(Errc::closed, "native: the session is broken");
  auto block = link_->allocate(size);
  if (!block && block.error() == Errc::closed) break_off(block.error());
  return block;
}

void NativeStream::release(StagingBlock block, bool reusable) {
  Lock lock = enter();
  if (reusable && !closing_) staging_.give_back(std::move(block));
  block.reset();  // under the lock: the link is used by one thread at a time
}

}  // namespace verbena::client
