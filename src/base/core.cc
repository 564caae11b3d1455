#include "base/core.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/polite_spin.h"
#include "base/sleep_cost.h"
#include "base/socket_events.h"

namespace verbena {
namespace {

using namespace std::chrono_literals;

constexpr auto eager_for = 2us;  // after the last progress
constexpr auto stay_max = 20us;  // sockets and timers wait meanwhile
constexpr unsigned vain_max = 3, eager_again_every = 256;
constexpr unsigned sleeps_for_measure = 8;  // one of them is measured: the clock of a thread takes a system call
constexpr auto nap_max = 100ms, held_for = 150ms;  // a longer nap than that is none: the thread was held
constexpr auto talk_for = 1ms;  // so long after a message, the end of a disk's transfer is part of an answer to it

// Polls between the socket events of this thread's loop. A handler may serve many of them, and many handlers may be
// ready before the loop's next poll, so the socket code counts the events that it serves.
struct Looks {
  std::function<size_t()> look;
  size_t events = 0;    // of sockets, since the last poll
  size_t progress = 0;  // made by polls between events
  bool looking = false;
};
thread_local Looks* looks_of_this_thread = nullptr;

class Looking {
 public:
  Looking() {
    if (looks_ == nullptr) return;
    looks_->looking = true;
    looks_->events = 0;
  }
  ~Looking() {
    if (looks_ != nullptr) looks_->looking = false;
  }

 private:
  Looks* const looks_ = looks_of_this_thread;
};

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Runs handlers up to `polls`, which is one of them: inside the loop's own context, so that a coroutine started by a
// message may run at once. Behind them in the queue is the loop's look at its sockets, which was made just before them:
// it is left to the next turn, or to the sleep. So after each handler the pollables are polled before the next sleep:
// one that a descriptor of the loop wakes can save a look of its own until then. Returns how many others were run.
template <class Polls>
size_t run_up_to(boost::asio::io_context& io, Polls polls) {
  bool done = false;
  boost::asio::post(io, [&] {
    polls();
    done = true;
  });
  size_t handled = 0;
  while (!done && io.poll_one() != 0) ++handled;
  return done ? handled - 1 : handled;
}

}  // namespace

void note_socket_event(size_t count) {
  Looks* const looks = looks_of_this_thread;
  if (looks == nullptr) return;
  looks->events += count;
  if (looks->events >= socket_events_per_look && !looks->looking) looks->progress += looks->look();
}

Core::Core(Options options) : options_(options), io_(1) {}
Core::~Core() = default;

void Core::add(Pollable* pollable) { pollables_.push_back(pollable); }

void Core::remove(Pollable* pollable) {
  if (armed_ && std::ranges::find(pollables_, pollable) != pollables_.end()) pollable->disarm();
  // Leaves a hole instead of shifting: poll_all() may be walking the list.
  std::replace(pollables_.begin(), pollables_.end(), pollable, static_cast<Pollable*>(nullptr));
}

size_t Core::poll_all() {
  const Looking looking;
  size_t progress = 0;
  for (size_t i = 0; i < pollables_.size(); ++i) {
    Pollable* const pollable = pollables_[i];
    if (pollable == nullptr) continue;
    const bool messages = pollable->brings_messages();  // it may be gone after poll()
    const size_t made = pollable->poll();
    progress += made;
    if (messages) messages_ += made;
  }
  std::erase(pollables_, nullptr);
  return progress;
}

// A ring that has just brought messages will soon bring more: it is polled again and again, which costs nanoseconds,
// before the kernel is asked, which costs as much as serving a request from memory. Where that is futile (the client
// waits for this processor) it is skipped, except for a try now and then.
size_t Core::poll_eagerly() {
  if (vain_ >= vain_max && ++vain_ % eager_again_every != 0) return poll_all();
  const auto start = SteadyClock::now();
  auto last = start;
  size_t total = 0;
  for (;;) {
    size_t progress = 0;
    for (int i = 0; i < 8 && progress == 0; ++i) {
      progress = poll_all();
      if (progress == 0) pause_briefly();
    }
    const auto now = SteadyClock::now();
    total += progress;
    if (progress != 0) last = now;
    if (now - last >= eager_for || now - start >= stay_max) break;
  }
  vain_ = total != 0 ? 0 : std::min(vain_ + 1, vain_max);
  return total;
}

// Ready to sleep only if all pollables are: one that cannot be woken keeps the loop polling.
bool Core::arm_all() {
  for (size_t i = 0; i < pollables_.size(); ++i) {
    if (pollables_[i] != nullptr && !pollables_[i]->arm()) {
      for (size_t j = 0; j <= i; ++j) {
        if (pollables_[j] != nullptr) pollables_[j]->disarm();
      }
      return false;
    }
  }
  return true;
}

Deadline Core::arrived_after() const {
  const auto now = SteadyClock::now();
  if (looked_ == Deadline{} || (asleep_ && now - looks_ <= held_for)) return now;
  return asleep_ ? looks_ : looked_;
}

void Core::run() {
  if (options_.pin_to_cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(options_.pin_to_cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // best effort: a container may forbid it
  }
  auto guard = boost::asio::make_work_guard(io_);
  auto last_progress = SteadyClock::now();
  auto last_pass = last_progress;  // its end, where the next one begins
  looks_ = last_pass;
  Deadline last_polled{};   // progress of a pollable, after which it pays to poll on
  Deadline last_message{};  // progress of one that brings messages
  PoliteSpin spin;
  SleepCost sleep_cost;
  unsigned sleeps = 0;
  bool eager = false;  // the last progress was made by a pollable
  Looks looks{.look = [this] { return armed_ ? 0 : poll_all(); }};
  looks_of_this_thread = &looks;
  while (!stopping_.load(std::memory_order_relaxed)) {
    looked_ = looks_;
    looks_ = last_pass;
    const uint64_t messages_before = messages_;
    size_t polled = 0;
    const auto polls = [&] { polled = eager ? poll_eagerly() : poll_all(); };
    const size_t handled = pollables_.empty() ? io_.poll() : run_up_to(io_, polls);
    polled += std::exchange(looks.progress, 0);
    const bool progressed = handled + polled != 0;
    const auto now = last_pass = SteadyClock::now();
    if (messages_ != messages_before) last_message = now;
    if (progressed) last_progress = now;
    if (now - last_message > talk_for) polled = 0;  // of a disk that works for clients of sockets
    if (handled + polled != 0) eager = polled != 0;
    if (polled != 0) {
      last_polled = now;
      continue;
    }
    if (stopping_.load(std::memory_order_relaxed)) break;
    // What was handled may have made more ready, behind the polls.
    if (progressed && !pollables_.empty()) continue;
    const bool busy = std::any_of(pollables_.begin(), pollables_.end(), [](Pollable* p) { return p && p->busy(); });
    // Progress of sockets is no reason to spin, since they wake a sleeper: HTTP alone would burn the core between two
    // requests. Where operations are in flight it is, and so is a disk's: what it has read may be on its way to a
    // client by one of them.
    const auto spins_since = busy ? last_progress : last_polled;
    if (!pollables_.empty() && now - spins_since < sleep_cost.poll_for(options_.spin_for) && spin.allowed(now)) {
      spin.yield(now);
      continue;
    }
    const bool measures = ++sleeps % sleeps_for_measure == 1;
    const auto cpu_before = measures ? thread_cpu_time() : std::chrono::nanoseconds(0);
    armed_ = arm_all();
    // Sleep until the io_context has an event. If a pollable cannot be woken by one, or has operations in flight (some
    // providers signal no descriptor for those), sleep only briefly.
    const auto nap = !armed_ ? std::chrono::microseconds(200)
                     : busy  ? std::chrono::microseconds(1000)
                             : std::chrono::microseconds(nap_max);
    looks_ = now;
    asleep_ = true;
    const bool woken = io_.run_one_for(nap) != 0;
    asleep_ = false;
    if (const auto awake = SteadyClock::now(); awake - now <= held_for) looks_ = last_pass = awake;
    if (std::exchange(armed_, false)) {
      for (auto* p : pollables_) {
        if (p != nullptr) p->disarm();
      }
    }
    if (measures) sleep_cost.add(thread_cpu_time() - cpu_before);
    if (woken) last_progress = SteadyClock::now();
  }
  looks_of_this_thread = nullptr;
  looked_ = {};
}

void Core::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  boost::asio::post(io_, [] {});
}

}  // namespace verbena
