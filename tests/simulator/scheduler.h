// The scheduler of the simulation: threads of which one runs at a time, chosen by a seed, in virtual time.
//
// libc.cc brings every call by which a thread waits, wakes another, reads a clock or draws a random number here. So
// unmodified code, RocksDB's included, takes the same way again for the same seed.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "simulator/context.h"

namespace verbena::simulator {

inline constexpr int64_t never = INT64_MAX;

class Scheduler {
 public:
  static Scheduler& get();

  // The calling thread, the only one, is scheduled from here on.
  void start(uint64_t seed, bool stalls = false);
  // Whether the calling thread is scheduled.
  bool on() const;
  int id() const;  // of the calling thread, from 1; 1 before start()

  // A point at which another thread may go on.
  void pause();        // always drawn
  void maybe_pause();  // at a rate that the seed chose; a few last as if the machine ran something else meanwhile
  // Waits for a wake() of `on`. False: the deadline, in nanoseconds of the steady clock, came first.
  bool wait(const void* on, int64_t deadline_ns = never);
  void wake(const void* on, size_t at_most = SIZE_MAX);    // which of its waiters is drawn
  void wake_poller(int epoll) { wake(poller_of(epoll)); }  // what waits by wait_as_poller() for it
  bool wait_as_poller(int epoll, int64_t deadline_ns);
  void sleep_until(int64_t deadline_ns) { wait(&deadline_ns, deadline_ns); }

  // A thread's life, for pthread_create() and pthread_join().
  void* register_thread();  // what adopt() takes
  void name_thread(void* thread, pthread_t as);
  void adopt(void* thread);  // the new thread itself; returns when it is chosen
  void end_thread();         // its last act
  void wait_for_end(pthread_t of);

  // Threads of one process, as it were. A thread belongs to the group of the one that made it; at first to 0.
  void set_group(size_t group) { self_->group = group; }
  // They do not run until then, and their time-outs come late.
  void freeze(size_t group, int64_t until_ns) { frozen_until_ns_[group % groups] = until_ns; }

  int64_t steady_ns();                                                              // a reading costs some nanoseconds
  int64_t wall_ns() { return steady_ns() + wall_offset_ns_; }                       // the world's
  int64_t wall_of_thread_ns() { return steady_ns() + wall_offset_of_thread_ns(); }  // its group's
  int64_t wall_offset_of_thread_ns() const { return wall_offset_ns_ + (self_ == nullptr ? 0 : ahead_ns(self_->group)); }
  // A group's wall clock is ahead of the world's by that, and by a part of what passes from now on, but never by more
  // than `most_ns`, nor as much behind.
  void set_clock(size_t group, int64_t ahead_ns, int64_t drift_ppm, int64_t most_ns) {
    clocks_[group % groups] = {ahead_ns, drift_ppm, most_ns, now_ns_};
  }
  // The whole process does: every deadline of that time has come.
  void stand_still(int64_t for_ns) { now_ns_ += for_ns; }
  void jump_wall(int64_t by_ns) { wall_offset_ns_ += by_ns; }
  uint64_t random();          // for what runs in the world
  void note(uint64_t event);  // into the trace
  uint64_t trace() const { return trace_; }
  uint64_t switches() const { return switches_; }
  // A line for each thread; safe in a handler of signals. The kernel's number of the thread that runs the world.
  int tell_threads(void (*tell)(const char* text, int size)) const;

 private:
  struct Thread {
    int id = 0;
    Context context{};
    bool runnable = true, ended = false, polls = false, timed_out = false;
    const void* waits_for = nullptr;
    size_t group = 0;
    int64_t deadline_ns = never;
    pthread_t handle{};
  };

  struct Clock {
    int64_t ahead_ns = 0, drift_ppm = 0, most_ns = 0, since_ns = 0;
  };

  // No address: of a descriptor of epoll.
  static const void* poller_of(int epoll) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(epoll) + 1); }

  Thread& choose();
  void go_on_with(Thread& next);
  void wake(Thread& thread);
  void block(Thread& self, int64_t deadline_ns);
  [[noreturn]] void deadlocked();

  bool is_frozen(const Thread& thread) const { return frozen_until_ns_[thread.group % groups] > now_ns_; }

  int64_t ahead_ns(size_t group) const {
    const Clock& clock = clocks_[group % groups];
    const int64_t drifted_ns = (now_ns_ - clock.since_ns) / 1'000'000 * clock.drift_ppm;
    return std::clamp(clock.ahead_ns + drifted_ns, -clock.most_ns, clock.most_ns);
  }

  static thread_local Thread* self_;
  Thread* running_ = nullptr;
  int kernel_id_ = 0;           // of the kernel thread that runs the world
  std::deque<Thread> threads_;  // ended ones, too: a thread that is waited for keeps its record
  std::vector<Thread*> live_;
  static constexpr size_t groups = 8;
  int64_t frozen_until_ns_[groups] = {};
  Clock clocks_[groups] = {};
  std::mt19937_64 choices_, draws_;
  int64_t now_ns_ = 1'000'000'000'000, wall_offset_ns_ = 1'700'000'000'000'000'000;
  uint64_t seed_ = 0, trace_ = 0xcbf29ce484222325u, switches_ = 0, pause_mask_ = 15, stall_mask_ = 0;
};

// Past interposition.
long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0);

}  // namespace verbena::simulator
