#include "simulator/scheduler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace verbena::simulator {

thread_local Scheduler::Thread* Scheduler::self_ = nullptr;

long kernel(long number, long a, long b, long c, long d, long e, long f) {
  long result = 0;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

Scheduler& Scheduler::get() {
  static Scheduler* const one = new Scheduler;  // outlives every thread
  return *one;
}

void Scheduler::start(uint64_t seed, bool stalls) {
  seed_ = seed;
  choices_.seed(seed);
  draws_.seed(~seed);
  pause_mask_ = (uint64_t{4} << 2 * (choices_() % 4)) - 1;
  if (const uint64_t rare = choices_() % 4; stalls && rare != 0) stall_mask_ = (uint64_t{64} << 2 * rare) - 1;
  self_ = static_cast<Thread*>(register_thread());
  self_->context.begin();
  kernel_id_ = static_cast<int>(kernel(SYS_gettid));
  running_ = self_;
}

bool Scheduler::on() const { return self_ != nullptr; }
int Scheduler::id() const { return self_ == nullptr ? 1 : self_->id; }

void Scheduler::note(uint64_t event) {
  trace_ = (trace_ ^ event) * 0x100000001b3u;
  trace_ ^= trace_ >> 29;
}

uint64_t Scheduler::random() { return draws_(); }

int64_t Scheduler::steady_ns() { return now_ns_ += 20; }

void Scheduler::wake(Thread& thread) {
  thread.runnable = true;
  thread.polls = false;
  thread.waits_for = nullptr;
  thread.deadline_ns = never;
}

Scheduler::Thread& Scheduler::choose() {
  now_ns_ += static_cast<int64_t>(200 + choices_() % 1024);
  for (;;) {
    size_t runnable = 0;
    int64_t next_ns = never;
    for (Thread* of : live_) {
      Thread& thread = *of;
      if (is_frozen(thread)) {
        next_ns = std::min(next_ns, frozen_until_ns_[thread.group % groups]);
        continue;
      }
      if (!thread.runnable && thread.deadline_ns <= now_ns_) {
        wake(thread);
        thread.timed_out = true;
      }
      runnable += thread.runnable;
      next_ns = std::min(next_ns, thread.deadline_ns);
    }
    if (runnable == 0) {
      if (next_ns == never) deadlocked();
      now_ns_ = next_ns;
      continue;
    }
    size_t at = choices_() % runnable;
    for (Thread* thread : live_) {
      if (thread->runnable && !is_frozen(*thread) && at-- == 0) return *thread;
    }
  }
}

void Scheduler::go_on_with(Thread& next) {
  Thread& self = *self_;
  note(static_cast<uint64_t>(next.id) << 48 ^ static_cast<uint64_t>(now_ns_));
  if (&next == &self) return;
  ++switches_;
  running_ = &next;
  if (self.ended) {
    self.context.end(next.context);
  } else {
    self.context.go_on_with(next.context);
  }
}

void Scheduler::pause() {
  if (on()) go_on_with(choose());
}

void Scheduler::maybe_pause() {
  if (!on()) return;
  const uint64_t drawn = choices_();
  if (stall_mask_ != 0 && (drawn >> 16 & stall_mask_) == 0) return sleep_until(now_ns_ + (1000 << (drawn >> 48) % 15));
  if ((drawn & pause_mask_) == 0) pause();
}

void Scheduler::block(Thread& self, int64_t deadline_ns) {
  self.runnable = self.timed_out = false;
  self.deadline_ns = deadline_ns;
  go_on_with(choose());
}

bool Scheduler::wait(const void* on, int64_t deadline_ns) {
  if (!this->on()) deadlocked();  // before start() there is no thread that could wake it
  self_->waits_for = on;
  block(*self_, deadline_ns);
  return !self_->timed_out;
}

bool Scheduler::wait_as_poller(int epoll, int64_t deadline_ns) {
  self_->polls = true;
  return wait(poller_of(epoll), deadline_ns);
}

void Scheduler::wake(const void* on, size_t at_most) {
  const auto waits = [on](const Thread* thread) { return !thread->runnable && thread->waits_for == on; };
  auto waiting = static_cast<size_t>(std::ranges::count_if(live_, waits));
  for (size_t left = std::min(waiting, at_most); left > 0; --left, --waiting) {
    size_t at = waiting == left ? 0 : choices_() % waiting;
    for (Thread* thread : live_) {
      if (!waits(thread) || at-- != 0) continue;
      wake(*thread);
      break;
    }
  }
}

void* Scheduler::register_thread() {
  Thread& thread = threads_.emplace_back();
  thread.id = static_cast<int>(threads_.size());
  thread.group = self_ == nullptr ? 0 : self_->group;
  live_.push_back(&thread);
  return &thread;
}

void Scheduler::name_thread(void* thread, pthread_t as) { static_cast<Thread*>(thread)->handle = as; }

void Scheduler::adopt(void* thread) {
  self_ = static_cast<Thread*>(thread);
  self_->context.lend();
}

void Scheduler::end_thread() {
  Thread& self = *self_;
  self.ended = true;
  self.runnable = false;
  std::erase(live_, &self);
  wake(&self);
  go_on_with(choose());
  self_ = nullptr;
}

void Scheduler::wait_for_end(pthread_t of) {
  for (auto thread = threads_.rbegin(); thread != threads_.rend(); ++thread) {
    if (pthread_equal(thread->handle, of) == 0) continue;
    Thread& found = *thread;  // it stays where it is while others are made; an iterator does not
    while (!found.ended) wait(&found);
    return;
  }
}

int Scheduler::tell_threads(void (*tell)(const char* text, int size)) const {
  char line[200];
  tell(line, std::snprintf(line, sizeof line, "at %ld ns, after %lu switches:\n", now_ns_, switches_));
  for (const Thread* thread : live_) {
    const char* const state = thread == running_   ? "has the turn"
                              : thread->runnable   ? "could go on"
                              : thread->polls      ? "polls"
                              : is_frozen(*thread) ? "is frozen, and waits"
                                                   : "waits";
    const long left_ns = thread->deadline_ns == never ? -1 : thread->deadline_ns - now_ns_;
    tell(line, std::snprintf(line, sizeof line, "  thread %d of group %zu %s for %p; time left: %ld ns\n", thread->id,
                             thread->group, state, thread->waits_for, left_ns));
  }
  return kernel_id_;
}

void Scheduler::deadlocked() {
  std::printf("seed %lu: every thread waits, none of them for a time\n", seed_);
  std::fflush(nullptr);
  tell_threads(
      [](const char* text, int size) { kernel(SYS_write, STDOUT_FILENO, reinterpret_cast<long>(text), size); });
  std::fflush(nullptr);
  _exit(3);
}

}  // namespace verbena::simulator
