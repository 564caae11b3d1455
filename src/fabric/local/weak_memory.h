// For tests: a machine with weak memory, which runs small programs of a few threads in every way that C++ allows.
//
// The memory model is the operational one of views (Kang et al., "A Promising Semantics for Relaxed-Memory
// Concurrency", POPL 2017, without promises): an atomic location keeps all its messages in their modification order,
// each with what its writer had seen. A load may return any message that is not older than what its thread has seen of
// that location; a store may take any place behind that. Acquire and release pass views on, full fences (seq_cst) meet
// in one view of the machine. Not in it: loads that return what is stored later ("load buffering"), which compilers and
// processors may do between relaxed accesses; so it finds no fault that needs them. Plain bytes are checked for races
// by vector clocks.
//
// explore() runs a program again and again, each time with other choices: which thread goes on, and what a load
// returns. Threads are contexts of this thread, which change at atomic operations only.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace verbena::fabric::local::weak {

inline constexpr size_t threads_max = 3, locations_max = 8;

// What a thread has seen: the newest message of each location, by its number there.
using View = std::array<uint16_t, locations_max>;
// How far it knows the other threads to be.
using Clock = std::array<uint32_t, threads_max>;
struct Seen {
  View view{};
  Clock clock{};
};

struct Message {
  uint64_t value = 0;
  Seen seen{};          // what an acquiring reader gets
  bool by_rmw = false;  // belongs directly behind the message that it has read
};
struct Location {
  std::string name;
  std::vector<Message> messages;  // by number
  std::vector<uint16_t> order;    // modification order, of numbers
  size_t position(uint16_t number) const {
    size_t at = 0;
    while (order[at] != number) ++at;
    return at;
  }
};

// A change that must be found: operations of one kind on one location are relaxed, or a thread's full fences are left
// out.
struct Planted {
  enum class What : uint8_t { nothing, load, store, fence } what = What::nothing;
  std::string location{};  // of load and store
  size_t thread = 0;       // of fence
};

class Machine {
 public:
  // `preemptions_max`: a thread that could go on is interrupted at most so often in a run.
  explicit Machine(Planted planted, size_t preemptions_max = SIZE_MAX)
      : planted_(std::move(planted)), preemptions_max_(preemptions_max) {}
  static Machine& current() { return *current_; }

  // Of one run. Bodies must not own memory across operations: a run that has failed is left where it is.
  void add(std::function<void()> body) { bodies_.push_back(std::move(body)); }
  size_t make_location(const char* name, uint64_t value);
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }
  // Suspends the thread until `ready`; a run in which every thread waits has failed.
  void wait_until(const std::function<bool()>& ready);

  uint64_t load(size_t location, std::memory_order order);
  void store(size_t location, uint64_t value, std::memory_order order);
  uint64_t exchange(size_t location, uint64_t value, std::memory_order order) {
    return modify(location, [value](uint64_t) { return value; }, order);
  }
  // Reads and writes as one operation. Returns what it read.
  uint64_t modify(size_t location, const std::function<uint64_t(uint64_t)>& next, std::memory_order order);
  void full_fence();
  // What was stored is visible sooner or later: now. It orders nothing else.
  void catch_up(size_t location);
  // Of plain bytes: `unit` is what they are counted in.
  void plain_write(uintptr_t unit);
  void plain_read(uintptr_t unit);

  // Runs `program`, which makes locations and adds threads, in every way. The first failure's description; empty: none.
  std::string explore(const std::function<void(Machine&)>& program);
  uint64_t runs() const { return runs_; }

 private:
  static constexpr size_t stack_size = 64 * 1024, operations_max = 400;
  struct Thread {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_size);
    Seen now, released, acquired;  // acquired: by relaxed loads, for a fence
    std::function<bool()> waits_for;
    bool ended = false;
  };
  struct Choice {
    size_t taken, count;
  };
  struct Bytes {
    Clock written{}, read{};  // when each thread last did so
  };

  size_t choose(size_t count);
  std::vector<size_t> able_threads() const;
  void run(const std::function<void(Machine&)>& program);
  bool next_run();
  void pause();  // at an operation: another thread may go on
  static void enter();
  Thread& me() { return threads_[running_]; }
  bool planted(Planted::What what, size_t location) const {
    return planted_.what == what && locations_[location].name == planted_.location;
  }
  void join(Seen& to, const Seen& from) const;
  void read_message(size_t location, uint16_t number, bool acquires);
  void put_message(size_t location, size_t position, Message message);

  static inline Machine* current_ = nullptr;
  const Planted planted_;
  const size_t preemptions_max_;
  std::vector<std::function<void()>> bodies_;
  std::vector<Thread> threads_ = std::vector<Thread>(threads_max);
  std::vector<Location> locations_;
  std::map<uintptr_t, Bytes> bytes_;
  Seen fences_;
  ucontext_t scheduler_{};
  size_t running_ = 0, operations_ = 0;
  std::vector<Choice> choices_;
  size_t depth_ = 0;
  std::string failure_;
  uint64_t runs_ = 0;
};

inline size_t Machine::make_location(const char* name, uint64_t value) {
  locations_.push_back({name, {Message{.value = value}}, {0}});
  return locations_.size() - 1;
}

inline size_t Machine::choose(size_t count) {
  if (count == 1) return 0;
  if (depth_ == choices_.size()) choices_.push_back({0, count});
  return choices_[depth_++].taken;
}

inline bool Machine::next_run() {
  while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count) choices_.pop_back();
  if (choices_.empty()) return false;
  ++choices_.back().taken;
  return true;
}

inline void Machine::join(Seen& to, const Seen& from) const {
  for (size_t i = 0; i < locations_.size(); ++i) {
    const Location& at = locations_[i];
    if (at.position(from.view[i]) > at.position(to.view[i])) to.view[i] = from.view[i];
  }
  for (size_t i = 0; i < threads_max; ++i) to.clock[i] = std::max(to.clock[i], from.clock[i]);
}

inline void Machine::enter() {
  Machine& machine = current();
  machine.bodies_[machine.running_]();
  machine.me().ended = true;
  ::swapcontext(&machine.me().context, &machine.scheduler_);
}

inline void Machine::pause() {
  if (++operations_ > operations_max) fail("the program does not end");
  ++me().now.clock[running_];
  ::swapcontext(&me().context, &scheduler_);
}

inline void Machine::wait_until(const std::function<bool()>& ready) {
  me().waits_for = ready;
  pause();
  me().waits_for = nullptr;
}

// The one that ran last comes first.
inline std::vector<size_t> Machine::able_threads() const {
  std::vector<size_t> able;
  for (size_t i = 0; i < bodies_.size(); ++i) {
    const size_t thread = (running_ + i) % bodies_.size();
    if (threads_[thread].ended) continue;
    if (!threads_[thread].waits_for || threads_[thread].waits_for()) able.push_back(thread);
  }
  return able;
}

inline void Machine::run(const std::function<void(Machine&)>& program) {
  bodies_.clear(), locations_.clear(), bytes_.clear();
  fences_ = {}, operations_ = 0, depth_ = 0;
  program(*this);
  for (size_t i = 0; i < bodies_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.now = thread.released = thread.acquired = {};
    thread.now.clock[i] = 1;
    thread.ended = false, thread.waits_for = nullptr;
    ::getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = stack_size;
    thread.context.uc_link = nullptr;
    ::makecontext(&thread.context, &Machine::enter, 0);
  }
  running_ = 0;
  size_t preemptions = 0;
  while (failure_.empty()) {
    const std::vector<size_t> able = able_threads();
    if (able.empty()) {
      if (!std::ranges::all_of(threads_.begin(), threads_.begin() + static_cast<ptrdiff_t>(bodies_.size()),
                               [](const Thread& thread) { return thread.ended; })) {
        fail("every thread waits, and none will be woken");
      }
      return;
    }
    const bool goes_on = able.front() == running_;
    const size_t next = goes_on && preemptions == preemptions_max_ ? running_ : able[choose(able.size())];
    if (goes_on && next != running_) ++preemptions;
    running_ = next;
    ::swapcontext(&scheduler_, &me().context);
  }
}

inline std::string Machine::explore(const std::function<void(Machine&)>& program) {
  current_ = this;
  do {
    ++runs_;
    run(program);
  } while (failure_.empty() && next_run());
  current_ = nullptr;
  return failure_;
}

inline void Machine::read_message(size_t location, uint16_t number, bool acquires) {
  const Message& message = locations_[location].messages[number];
  me().now.view[location] = number;
  join(acquires ? me().now : me().acquired, message.seen);
}

inline uint64_t Machine::load(size_t location, std::memory_order order) {
  pause();
  Location& at = locations_[location];
  const size_t oldest = at.position(me().now.view[location]);
  // The newest first: so the first runs are those of a machine without surprises.
  const uint16_t number = at.order[at.order.size() - 1 - choose(at.order.size() - oldest)];
  const bool acquires = order != std::memory_order_relaxed && !planted(Planted::What::load, location);
  read_message(location, number, acquires);
  return at.messages[number].value;
}

inline void Machine::put_message(size_t location, size_t position, Message message) {
  Location& at = locations_[location];
  const auto number = static_cast<uint16_t>(at.messages.size());
  me().now.view[location] = number;
  message.seen.view[location] = number;
  at.messages.push_back(std::move(message));
  at.order.insert(at.order.begin() + static_cast<ptrdiff_t>(position), number);
}

inline void Machine::store(size_t location, uint64_t value, std::memory_order order) {
  pause();
  Location& at = locations_[location];
  const size_t oldest = at.position(me().now.view[location]);
  std::vector<size_t> places;
  for (size_t position = at.order.size(); position > oldest; --position) {
    const bool splits = position < at.order.size() && at.messages[at.order[position]].by_rmw;
    if (!splits) places.push_back(position);
  }
  const bool releases = order != std::memory_order_relaxed && !planted(Planted::What::store, location);
  const size_t place = places[choose(places.size())];
  put_message(location, place, {.value = value, .seen = releases ? me().now : me().released});
}

inline uint64_t Machine::modify(size_t location, const std::function<uint64_t(uint64_t)>& next,
                                std::memory_order order) {
  pause();
  Location& at = locations_[location];
  std::vector<size_t> places;
  for (size_t i = at.order.size(); i > at.position(me().now.view[location]); --i) {
    if (i == at.order.size() || !at.messages[at.order[i]].by_rmw) places.push_back(i - 1);
  }
  const size_t read = places[choose(places.size())];
  const uint16_t number = at.order[read];
  const bool acquires = order != std::memory_order_relaxed && order != std::memory_order_release;
  const bool releases = order != std::memory_order_relaxed && !planted(Planted::What::store, location);
  const uint64_t before = at.messages[number].value;
  Seen seen = at.messages[number].seen;  // a release sequence goes on
  read_message(location, number, acquires);
  join(seen, releases ? me().now : me().released);
  put_message(location, read + 1, {.value = next(before), .seen = seen, .by_rmw = true});
  return before;
}

inline void Machine::full_fence() {
  pause();
  if (planted_.what == Planted::What::fence && planted_.thread == running_) return;
  join(me().now, me().acquired);
  // Fences are ordered, so what one thread had seen another cannot miss. That alone does not make plain bytes safe.
  Seen views{.view = fences_.view, .clock = {}};
  join(me().now, views);
  fences_.view = me().now.view;
  me().released = me().now;
}

// What a thread does after its n-th operation is known to others from the next one on.
inline void Machine::plain_write(uintptr_t unit) {
  Bytes& bytes = bytes_[unit];
  for (size_t i = 0; i < threads_max; ++i) {
    if (i == running_) continue;
    if (bytes.written[i] > me().now.clock[i]) fail("a race: bytes are written by two threads");
    if (bytes.read[i] > me().now.clock[i]) fail("a race: bytes are written while another thread reads them");
  }
  bytes.written[running_] = me().now.clock[running_] + 1;
}

inline void Machine::plain_read(uintptr_t unit) {
  Bytes& bytes = bytes_[unit];
  for (size_t i = 0; i < threads_max; ++i) {
    if (i == running_) continue;
    if (bytes.written[i] > me().now.clock[i]) fail("a race: bytes are read that another thread is writing");
  }
  bytes.read[running_] = me().now.clock[running_] + 1;
}

inline void Machine::catch_up(size_t location) { me().now.view[location] = locations_[location].order.back(); }

// An atomic of the machine. Made within a run's program.
template <class T>
class Atomic {
 public:
  explicit Atomic(const char* name, T value = 0) : location_(Machine::current().make_location(name, value)) {}
  void catch_up() const { Machine::current().catch_up(location_); }
  T load(std::memory_order order) const { return static_cast<T>(Machine::current().load(location_, order)); }
  void store(T value, std::memory_order order) { Machine::current().store(location_, value, order); }
  T exchange(T value, std::memory_order order) {
    return static_cast<T>(Machine::current().exchange(location_, value, order));
  }
  T fetch_add(T by, std::memory_order order) {
    const auto next = [by](uint64_t value) { return static_cast<T>(value + by); };
    return static_cast<T>(Machine::current().modify(location_, next, order));
  }
  T fetch_sub(T by, std::memory_order order) { return fetch_add(static_cast<T>(T{0} - by), order); }

 private:
  size_t location_;
};

// As NativePlatform. Plain bytes are counted in units of a ring's records.
struct Platform {
  template <class T>
  using Atomic = weak::Atomic<T>;
  static constexpr uintptr_t unit = 64;
  static void full_fence() { Machine::current().full_fence(); }
  static void write(std::byte* to, const std::byte* from, size_t size) {
    const auto at = reinterpret_cast<uintptr_t>(to);
    for (uintptr_t i = at / unit; i <= (at + size - 1) / unit; ++i) Machine::current().plain_write(i);
    std::memcpy(to, from, size);
  }
  static void read(std::byte* to, const std::byte* from, size_t size) {
    const auto at = reinterpret_cast<uintptr_t>(from);
    for (uintptr_t i = at / unit; i <= (at + size - 1) / unit; ++i) Machine::current().plain_read(i);
    std::memcpy(to, from, size);
  }
};

}  // namespace verbena::fabric::local::weak
