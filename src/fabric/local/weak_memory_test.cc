// The rings, the words by which sides wake each other, and the permits of windows, run in every way that C++'s memory
// model allows (weak_memory.h), for small numbers of messages. Each weakening that matters is planted, and found.
#include "fabric/local/weak_memory.h"

#include <gtest/gtest.h>

#include <memory>

#include "fabric/local/agreements.h"
#include "fabric/local/ring.h"

namespace verbena::fabric::local::weak {
namespace {

using What = Planted::What;

// The model itself: litmus tests with known results.

TEST(WeakMemory, ModelShowsWhatRelaxedAccessesMayDo) {
  struct State {
    Atomic<uint64_t> x{"x"}, y{"y"};
    uint64_t first = 9, second = 9;
  };
  std::unique_ptr<State> state;
  // Store buffering: both loads may miss the other's store; not with full fences between.
  const auto both_miss = [&](bool fences) {
    bool seen = false;
    Machine machine({});
    EXPECT_EQ(machine.explore([&](Machine& m) {
      if (state != nullptr && state->first == 0 && state->second == 0) seen = true;
      state = std::make_unique<State>();
      m.add([&] {
        state->x.store(1, std::memory_order_release);
        if (fences) Platform::full_fence();
        state->first = state->y.load(std::memory_order_acquire);
      });
      m.add([&] {
        state->y.store(1, std::memory_order_release);
        if (fences) Platform::full_fence();
        state->second = state->x.load(std::memory_order_acquire);
      });
    }),
              "");
    state.reset();
    return seen;
  };
  EXPECT_TRUE(both_miss(false));
  EXPECT_FALSE(both_miss(true));
  // Message passing: the flag may come before the bytes; not with release and acquire.
  const auto old_bytes = [&](std::memory_order store, std::memory_order load) {
    bool seen = false;
    Machine machine({});
    EXPECT_EQ(machine.explore([&](Machine& m) {
      state = std::make_unique<State>();
      m.add([&] {
        state->x.store(1, std::memory_order_relaxed);
        state->y.store(1, store);
      });
      m.add([&, load] {
        if (state->y.load(load) == 1 && state->x.load(std::memory_order_relaxed) == 0) seen = true;
      });
    }),
              "");
    state.reset();
    return seen;
  };
  EXPECT_TRUE(old_bytes(std::memory_order_relaxed, std::memory_order_acquire));
  EXPECT_TRUE(old_bytes(std::memory_order_release, std::memory_order_relaxed));
  EXPECT_FALSE(old_bytes(std::memory_order_release, std::memory_order_acquire));
}

TEST(WeakMemory, ModelKeepsLocationsCoherentAndExchangesWhole) {
  struct State {
    Atomic<uint64_t> x{"x"};
    uint64_t got[2] = {9, 9};
  };
  std::unique_ptr<State> state;
  Machine machine({});
  EXPECT_EQ(machine.explore([&](Machine& m) {
    if (state != nullptr && state->got[0] + state->got[1] != 1) m.fail("not exactly one of both has taken it");
    state = std::make_unique<State>();
    m.add([&] {
      state->x.store(1, std::memory_order_relaxed);
      state->got[0] = state->x.exchange(0, std::memory_order_relaxed);
    });
    m.add([&] {
      const uint64_t first = state->x.load(std::memory_order_relaxed);
      const uint64_t second = state->x.load(std::memory_order_relaxed);
      state->got[1] = state->x.exchange(0, std::memory_order_relaxed);
      if (first == 1 && second == 0 && state->got[1] == 1) Machine::current().fail("it saw an older value again");
    });
  }),
            "");
}

TEST(WeakMemory, ModelFindsRacesOfPlainBytes) {
  alignas(64) std::byte bytes[64] = {};
  const std::byte one{1};
  Machine machine({});
  const auto program = [&](Machine& m) {
    m.add([&] { Platform::write(bytes, &one, 1); });
    m.add([&] {
      std::byte into;
      Platform::read(&into, bytes, 1);
    });
  };
  EXPECT_TRUE(machine.explore(program).starts_with("a race"));
}

// The ring.

constexpr uint64_t line = record_alignment;

struct RingState {
  explicit RingState(uint64_t records) : memory{&indices, data.data(), records * line, sizeof(uint64_t)} {}
  BasicRingIndices<Platform> indices{.head = Atomic<uint64_t>("head"), .tail = Atomic<uint64_t>("tail")};
  alignas(line) std::array<std::byte, 4 * line> data{};
  BasicRingMemory<Platform> memory;
  BasicProducer<Platform> producer{memory};
  BasicConsumer<Platform> consumer{memory};
  uint64_t pushed = 0, popped = 0;
  bool rung = false, woken = false, in_use = false;
  Atomic<uint32_t> server_sleeps{"server_sleeps"}, client_wants_space{"client_wants_space"};

  bool push() {
    const uint64_t number = pushed + 1;
    switch (producer.push(std::as_bytes(std::span(&number, 1)), {})) {
      case BasicProducer<Platform>::Push::ok:
        ++pushed;
        return true;
      case BasicProducer<Platform>::Push::violated:
        Machine::current().fail("the producer takes the consumer for a liar");
        break;
      case BasicProducer<Platform>::Push::full:
        break;
    }
    return false;
  }
  bool pop() {
    Bytes view;
    switch (consumer.peek(view)) {
      case BasicConsumer<Platform>::Pop::none:
        return false;
      case BasicConsumer<Platform>::Pop::violated:
        Machine::current().fail("the consumer takes the producer for a liar");
        return false;
      case BasicConsumer<Platform>::Pop::message:
        break;
    }
    uint64_t number = 0;
    Platform::read(reinterpret_cast<std::byte*>(&number), view.data(), sizeof number);
    if (view.size() != sizeof number || number != popped + 1) Machine::current().fail("another message than was sent");
    consumer.release();
    ++popped;
    return true;
  }
};

// Three messages through room for two.
std::string ring_outcome(const Planted& planted, uint64_t* runs = nullptr, uint64_t* whole = nullptr) {
  std::unique_ptr<RingState> state;
  Machine machine(planted);
  const std::string failure = machine.explore([&](Machine& m) {
    if (whole != nullptr && state != nullptr && state->popped == 3) ++*whole;
    state = std::make_unique<RingState>(2);
    m.add([&] {
      for (int tries = 0; tries < 4 && state->pushed < 3; ++tries) state->push();
    });
    m.add([&] {
      for (int tries = 0; tries < 4 && state->popped < 3; ++tries) state->pop();
    });
  });
  if (runs != nullptr) *runs = machine.runs();
  return failure;
}

TEST(WeakMemory, NoRunOfARingLosesOrTearsAMessage) {
  uint64_t runs = 0, whole = 0;
  EXPECT_EQ(ring_outcome({}, &runs, &whole), "");
  EXPECT_GT(runs, 1000u);
  EXPECT_GT(whole, 100u) << "in which all messages came through";
  RecordProperty("runs", static_cast<int>(runs));
}

TEST(WeakMemory, AWeakerRingIsFound) {
  for (const char* index : {"head", "tail"}) {
    EXPECT_NE(ring_outcome({.what = What::store, .location = index}), "") << "published without release: " << index;
    EXPECT_NE(ring_outcome({.what = What::load, .location = index}), "") << "looked at without acquire: " << index;
  }
}

// Waking a server that sleeps until its doorbell rings.

std::string doorbell_outcome(uint64_t messages, size_t preemptions_max, const Planted& planted,
                             uint64_t* runs = nullptr) {
  std::unique_ptr<RingState> state;
  Machine machine(planted, preemptions_max);
  const std::string failure = machine.explore([&](Machine& m) {
    state = std::make_unique<RingState>(2);
    m.add([&] {
      while (state->pushed < messages && state->push()) {
        if (must_wake<Platform>(state->server_sleeps)) state->rung = true;
      }
    });
    m.add([&, &m = m] {
      while (state->popped < messages) {
        while (state->pop()) continue;
        if (state->popped == messages) return;
        announce_sleep<Platform>(state->server_sleeps);
        if (!state->consumer.pending()) {
          m.wait_until([&] { return state->rung; });
          state->rung = false;
        }
        is_awake(state->server_sleeps);
      }
    });
  });
  if (runs != nullptr) *runs = machine.runs();
  return failure;
}

TEST(WeakMemory, NoWakeUpIsLost) {
  uint64_t runs = 0;
  EXPECT_EQ(doorbell_outcome(1, SIZE_MAX, {}, &runs), "");
  EXPECT_GT(runs, 100u);
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_EQ(doorbell_outcome(2, 2, {}, &runs), "") << "every way has too many runs";
  EXPECT_GT(runs, 100u);
  RecordProperty("runs_of_two", static_cast<int>(runs));
}

TEST(WeakMemory, AWakeUpThatIsLostWithoutAFenceIsFound) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    EXPECT_TRUE(doorbell_outcome(1, SIZE_MAX, {.what = What::fence, .thread = side}).starts_with("every thread waits"))
        << side;
  }
}

// Waking a client that sleeps until the ring has space.

std::string space_outcome(const Planted& planted, uint64_t* runs = nullptr) {
  constexpr uint64_t messages = 2;
  std::unique_ptr<RingState> state;
  Machine machine(planted);
  const std::string failure = machine.explore([&](Machine& m) {
    state = std::make_unique<RingState>(1);
    m.add([&, &m = m] {
      while (state->pushed < messages) {
        if (state->push()) continue;
        announce_sleep<Platform>(state->client_wants_space);
        if (!state->producer.fits(sizeof(uint64_t))) {
          m.wait_until([&] { return state->woken; });
          state->woken = false;
        }
        is_awake(state->client_wants_space);
      }
    });
    m.add([&, &m = m] {
      while (state->popped < messages) {
        m.wait_until([&] { return state->pushed > state->popped; });
        state->indices.head.catch_up();
        if (!state->pop()) return m.fail("a message that was published is not there");
        if (must_wake<Platform>(state->client_wants_space)) state->woken = true;
      }
    });
  });
  if (runs != nullptr) *runs = machine.runs();
  return failure;
}

TEST(WeakMemory, AClientThatWaitsForSpaceIsWoken) {
  uint64_t runs = 0;
  EXPECT_EQ(space_outcome({}, &runs), "");
  EXPECT_GT(runs, 100u);
  RecordProperty("runs", static_cast<int>(runs));
  for (const size_t side : {size_t{0}, size_t{1}}) {
    EXPECT_TRUE(space_outcome({.what = What::fence, .thread = side}).starts_with("every thread waits")) << side;
  }
}

// A lent window: the server uses it while it is lent, and the client has it for itself afterwards.

struct WindowState {
  Atomic<uint64_t> permit{"permit"};
  Atomic<uint32_t> busy{"busy"};
  alignas(line) std::array<std::byte, line> memory{};
  bool idle = true;
  unsigned used = 0;
};

// `after_another`: while the server uses the window it meets another one that had the same permit before.
std::string window_outcome(const Planted& planted, uint64_t* runs = nullptr, uint64_t* used = nullptr,
                           bool after_another = false) {
  constexpr uint64_t earlier = 0x401, lent = 0x501;
  std::unique_ptr<WindowState> state;
  Machine machine(planted);
  const std::string failure = machine.explore([&](Machine& m) {
    if (used != nullptr && state != nullptr) *used += state->used;
    state = std::make_unique<WindowState>();
    const std::byte mine{1}, theirs{2};
    m.add([&, &m = m, mine] {
      Platform::write(state->memory.data(), &mine, 1);
      lend_window(state->permit, lent);
      withdraw_window<Platform>(state->permit);
      while (window_is_busy(state->busy)) {
        m.wait_until([&] { return state->idle; });
        state->busy.catch_up();
      }
      Platform::write(state->memory.data(), &mine, 1);
    });
    m.add([&, &m = m, theirs] {
      for (int slice = after_another ? 1 : 0; slice < 2; ++slice) {
        state->idle = false;
        const auto use = [&] {
          if (after_another) use_window<Platform>(state->permit, state->busy, earlier, [&m] { m.fail("withdrawn"); });
          std::byte before;
          Platform::read(&before, state->memory.data(), 1);
          Platform::write(state->memory.data(), &theirs, 1);
          ++state->used;
        };
        use_window<Platform>(state->permit, state->busy, lent, use);
        state->idle = true;
      }
    });
  });
  if (runs != nullptr) *runs = machine.runs();
  return failure;
}

TEST(WeakMemory, AWithdrawnWindowIsNotTouchedAnyMore) {
  uint64_t runs = 0, used = 0;
  EXPECT_EQ(window_outcome({}, &runs, &used), "");
  EXPECT_GT(runs, 100u);
  EXPECT_GT(used, 10u);
  RecordProperty("runs", static_cast<int>(runs));
  for (const char* word : {"permit", "busy"}) {
    EXPECT_NE(window_outcome({.what = What::store, .location = word}), "") << word;
    EXPECT_NE(window_outcome({.what = What::load, .location = word}), "") << word;
  }
  for (const size_t side : {size_t{0}, size_t{1}}) {
    EXPECT_TRUE(window_outcome({.what = What::fence, .thread = side}).starts_with("a race")) << side;
  }
}

// A device copies for longer than the call that begins the copy, and a permit is lent again once its window is over.
TEST(WeakMemory, AnotherWindowOfTheSamePermitDoesNotEndTheUseOfThisOne) {
  uint64_t runs = 0, used = 0;
  EXPECT_EQ(window_outcome({}, &runs, &used, /*after_another=*/true), "");
  EXPECT_GT(runs, 100u);
  EXPECT_GT(used, 10u);
}

}  // namespace
}  // namespace verbena::fabric::local::weak
