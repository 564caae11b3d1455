#include "base/core.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <optional>
#include <thread>

#include "base/blocking.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/socket_events.h"

namespace verbena {
namespace {

class CountingPollable : public Pollable {
 public:
  size_t poll() override { return ++polls < 100 ? 1 : 0; }
  bool busy() const override { return false; }
  bool arm() override { return ++arms > 0; }
  void disarm() override { ++disarms; }
  int polls = 0;
  int arms = 0;
  int disarms = 0;
};

TEST(Core, PollsThenSleepsAndWakesForPostedWork) {
  Core core({});
  CountingPollable pollable;
  core.add(&pollable);
  std::thread thread([&core] { core.run(); });
  std::atomic<bool> ran{false};
  boost::asio::post(core.io(), [&] {
    ran = true;
    core.remove(&pollable);
  });
  while (!ran) std::this_thread::yield();
  core.stop();
  thread.join();
  EXPECT_EQ(pollable.arms, pollable.disarms);
}

class IdlePollable : public Pollable {
 public:
  size_t poll() override { return ++polls, 0; }
  bool busy() const override { return false; }
  bool arm() override { return true; }
  void disarm() override {}
  int polls = 0;
};

class DiskPollable : public IdlePollable {
 public:
  explicit DiskPollable(Core& core) : core_(core) {}
  size_t poll() override {
    if (++polls > 10'000) core_.stop();
    return polls == 1 ? 1 : 0;
  }
  bool arm() override {
    ++arms;
    core_.stop();
    return true;
  }
  bool brings_messages() const override { return false; }
  int arms = 0;

 private:
  Core& core_;
};

TEST(Core, TheEndOfADisksTransferIsNoReasonToPollOn) {
  Core core({.spin_for = std::chrono::hours(1)});
  DiskPollable pollable(core);
  core.add(&pollable);
  core.run();
  EXPECT_EQ(pollable.arms, 1);
  EXPECT_LT(pollable.polls, 10);
  core.remove(&pollable);
}

// A transfer of a disk that ends late, and begins an operation whose end nothing tells.
class LateDiskPollable : public IdlePollable {
 public:
  explicit LateDiskPollable(Core& core) : core_(core) {}
  size_t poll() override {
    if (sends_) {
      slept = arms_ != arms_before_;
      core_.stop();
      return 0;
    }
    arms_before_ = arms_;
    sends_ = SteadyClock::now() >= end_at_;
    return sends_ ? 1 : 0;
  }
  bool busy() const override { return sends_; }
  bool arm() override {
    ++arms_;
    return !sends_;
  }
  bool brings_messages() const override { return false; }
  bool slept = false;  // between that end and the next poll

 private:
  Core& core_;
  const Deadline end_at_ = deadline_in(std::chrono::milliseconds(20));
  bool sends_ = false;
  int arms_ = 0, arms_before_ = 0;
};

// The write by RDMA of a GET whose bytes came late: the loop looked for its end after 200 us.
TEST(Core, TheEndOfADisksTransferIsAReasonToPollOnForWhatItHasBegun) {
  Core core({.spin_for = std::chrono::milliseconds(5)});
  LateDiskPollable pollable(core);
  core.add(&pollable);
  core.run();
  EXPECT_FALSE(pollable.slept);
  core.remove(&pollable);
}

// Is told by a handler of the loop that it has something, behind its first poll.
class ToldPollable final : public Pollable {
 public:
  explicit ToldPollable(Core& core) : core_(core) {}
  size_t poll() override {
    if (told_) {
      slept = arms_ != arms_when_told_;
      core_.stop();
    } else {
      boost::asio::post(core_.io(), [this] {
        told_ = true;
        arms_when_told_ = arms_;
      });
    }
    return 0;
  }
  bool busy() const override { return false; }
  bool arm() override { return ++arms_ > 0; }
  void disarm() override {}
  bool slept = false;  // between that and the next poll

 private:
  Core& core_;
  bool told_ = false;
  int arms_ = 0, arms_when_told_ = 0;
};

TEST(Core, PollsAfterAHandlerBeforeItSleeps) {
  Core core({});
  ToldPollable pollable(core);
  core.add(&pollable);
  core.run();
  EXPECT_FALSE(pollable.slept);
  core.remove(&pollable);
}

// Each event makes its successor ready, like sockets in a flood.
void serve_events(Core& core, int left) {
  note_socket_event();
  if (left == 0) return core.stop();
  boost::asio::post(core.io(), [&core, left] { serve_events(core, left - 1); });
}

TEST(Core, SocketsThatAlwaysHaveSomethingLeaveThePollablesTheirTurns) {
  constexpr int events = 1600;
  Core core({});
  IdlePollable pollable;
  core.add(&pollable);
  boost::asio::post(core.io(), [&] { serve_events(core, events); });
  core.run();
  EXPECT_GE(pollable.polls, events / static_cast<int>(socket_events_per_look));
  core.remove(&pollable);
}

Task<> on_the_pool(BlockingPool& pool, Core& core, std::thread::id& worker, Result<int>& answer, bool& back_home) {
  const auto home = std::this_thread::get_id();
  auto work = [&worker]() -> Result<int> {
    worker = std::this_thread::get_id();
    return 42;
  };
  answer = co_await pool.run("test.work", work);
  back_home = std::this_thread::get_id() == home;
  core.stop();
}

TEST(BlockingPool, RunsElsewhereAndResumesAtHome) {
  Core core({});
  std::optional<BlockingPool> pool(std::in_place, 1, 8);
  std::thread::id worker;
  Result<int> answer = fail(Errc::internal);
  bool back_home = false;
  boost::asio::co_spawn(core.io(), on_the_pool(*pool, core, worker, answer, back_home), boost::asio::detached);
  core.run();
  EXPECT_EQ(answer.value(), 42);
  EXPECT_TRUE(back_home);
  EXPECT_NE(worker, std::this_thread::get_id());
  pool.reset();  // a call is counted when it has ended, perhaps after its caller has continued
  EXPECT_NE(metrics::exposition().find("verbena_blocking_calls_total{reason=\"test.work\"} 1"), std::string::npos);
}

// A disk that did not answer to a search or the doctor delayed the server's stop without bound.
TEST(BlockingPool, IsLeftWithWhatDoesNotEnd) {
  struct Shared {  // shared with a thread that may outlive the pool
    std::promise<void> disk, begun, answered;
  };
  const auto shared = std::make_shared<Shared>();
  const auto never = std::make_shared<int>(1);
  BlockingPool pool(1, 8);
  ASSERT_TRUE(pool.submit("test", [shared] {
    shared->begun.set_value();
    shared->disk.get_future().wait();
    shared->answered.set_value();
  }));
  ASSERT_TRUE(pool.submit("test", [never] { ++*never; }));
  shared->begun.get_future().wait();
  EXPECT_FALSE(pool.leave(std::chrono::milliseconds(1)));
  EXPECT_EQ(never.use_count(), 1) << "what waited is gone";
  EXPECT_FALSE(pool.submit("test", [] {}));
  shared->disk.set_value();
  shared->answered.get_future().wait();
  EXPECT_EQ(*never, 1) << "and never runs";
}

TEST(BlockingPool, IsLeftAtOnceWhereNothingIsUnderWay) {
  BlockingPool pool(2, 8);
  EXPECT_TRUE(pool.leave(std::chrono::minutes(1)));
  EXPECT_TRUE(pool.leave(std::chrono::minutes(1))) << "twice is no harm";
}

TEST(BlockingPool, AFullQueueAnswersAtOnce) {
  std::atomic<bool> go{false};
  std::atomic<bool> started{false};
  BlockingPool pool(1, 1);  // last: its thread is joined before its data is destroyed
  ASSERT_TRUE(pool.submit("test.block", [&] {
    started = true;
    while (!go) std::this_thread::yield();
  }));
  while (!started) std::this_thread::yield();
  EXPECT_TRUE(pool.submit("test.queued", [] {}));
  EXPECT_FALSE(pool.submit("test.refused", [] {}));
  go = true;
}

// A caller that was refused asked again and again, and those that came later could be served before it, without end.
TEST(BlockingPool, WhatIsNotRefusedRunsInTheOrderInWhichItCame) {
  boost::asio::io_context io;
  std::atomic<bool> go{false};
  std::vector<int> order;  // used by the pool's only thread, and when that has nothing to do
  BlockingPool pool(1, 1);
  ASSERT_TRUE(pool.submit("test.block", [&] {
    while (!go) std::this_thread::yield();
  }));
  const auto note = [&](int number) -> Task<> {
    const auto work = [&order, number]() -> Result<bool> {
      order.push_back(number);
      return true;
    };
    EXPECT_TRUE(co_await pool.run_in_order("test.in_order", work));
  };
  for (int i = 0; i < 5; ++i) boost::asio::co_spawn(io, note(i), boost::asio::detached);
  boost::asio::post(io, [&] { go = true; });
  io.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

// Some callers that are never refused had all those refused that may be.
TEST(BlockingPool, WhatIsNotRefusedTakesNoPlaceOfWhatMayBe) {
  boost::asio::io_context io;
  std::atomic<bool> go{false}, started{false};
  std::atomic<int> done{0};
  BlockingPool pool(1, 1);
  ASSERT_TRUE(pool.submit("test.block", [&] {
    started = true;
    while (!go) std::this_thread::yield();
  }));
  while (!started) std::this_thread::yield();
  const auto wait = [&]() -> Task<> {
    const auto work = [&done]() -> Result<bool> { return ++done != 0; };
    EXPECT_TRUE(co_await pool.run_in_order("test.in_order", work));
  };
  for (int i = 0; i < 3; ++i) boost::asio::co_spawn(io, wait(), boost::asio::detached);
  io.poll();
  EXPECT_TRUE(pool.submit("test.bounded", [&] { ++done; }));
  EXPECT_FALSE(pool.submit("test.refused", [] {})) << "the bound holds beside them";
  go = true;
  io.run();
  while (done < 4) std::this_thread::yield();
  EXPECT_TRUE(pool.submit("test.bounded", [] {})) << "its place is free again";
}

// What came while the loop was held was taken for what has just come.
TEST(Core, WhatItBringsAfterItWasHeldMayHaveComeBefore) {
  class Looking final : public IdlePollable {
   public:
    explicit Looking(Core& core) : core_(core) {}
    size_t poll() override {
      if (held.exchange(false)) seen.set_value(core_.arrived_after());
      if (later != Deadline::max() && core_.arrived_after() > later) {
        later = Deadline::max();
        passed.set_value();
      }
      return 0;
    }
    std::atomic<bool> held{false};
    Deadline later = Deadline::max();  // on the core's thread
    std::promise<Deadline> seen;
    std::promise<void> passed;

   private:
    Core& core_;
  };
  Core core({});
  const Deadline before_it_runs = SteadyClock::now();
  EXPECT_GE(core.arrived_after(), before_it_runs);
  Looking looking(core);
  core.add(&looking);
  std::thread thread([&core] { core.run(); });
  std::promise<Deadline> began;
  boost::asio::post(core.io(), [&] {
    began.set_value(SteadyClock::now());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    looking.later = SteadyClock::now();
    looking.held = true;
  });
  EXPECT_LE(looking.seen.get_future().get(), began.get_future().get());
  looking.passed.get_future().wait();
  core.stop();
  thread.join();
}

}  // namespace
}  // namespace verbena
