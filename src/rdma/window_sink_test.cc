#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstring>
#include <optional>
#include <string>

#include "rdma/token_windows.h"

namespace verbena::rdma {
namespace {

namespace asio = boost::asio;

// Its writes complete when the test decides.
class HeldWindow final : public fabric::Window {
 public:
  explicit HeldWindow(asio::steady_timer& gate) : gate_(gate) {}
  uint64_t size() const override { return 1 * MiB; }
  Task<Result<void>> write(Bytes, uint64_t, Deadline) override {
    boost::system::error_code opened;
    co_await gate_.async_wait(asio::redirect_error(asio::use_awaitable, opened));
    co_return Result<void>{};
  }
  Task<Result<void>> read(MutableBytes, uint64_t, Deadline) override { co_return fail(Errc::unsupported, "held"); }

 private:
  asio::steady_timer& gate_;
};

Task<void> push_and_drain(WindowSink& sink, memory::Chunk chunk, std::optional<Result<void>>& drained) {
  EXPECT_TRUE(co_await sink.begin(chunk.bytes.size()));
  EXPECT_TRUE(co_await sink.push(std::move(chunk)));
  drained = co_await sink.drained();
}

TEST(WindowSink, IsDrainedOnlyWhenNoWriteHoldsItsLease) {
  asio::io_context io;
  asio::steady_timer gate(io, asio::steady_timer::time_point::max());
  auto arena = std::move(*memory::Arena::create(4 * MiB));
  WindowSink sink(std::make_unique<HeldWindow>(gate), std::chrono::seconds(60));
  memory::Chunk chunk{*arena->lease(4096), {}};
  chunk.bytes = Bytes(chunk.lease.data(), 4096);
  std::optional<Result<void>> drained;
  asio::co_spawn(io, push_and_drain(sink, std::move(chunk), drained), asio::detached);
  while (io.poll() != 0) {
  }
  EXPECT_FALSE(drained) << "the peer has not taken the bytes, and their memory is still held";
  EXPECT_NE(arena->leased_bytes(), 0u);
  gate.cancel();
  while (io.poll() != 0) {
  }
  ASSERT_TRUE(drained && *drained);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST(WindowSink, DigestsAPieceAfterItsWriteWasPostedAlsoIfThatIsOverAtOnce) {
  struct Window final : fabric::Window {
    Window(asio::steady_timer& opens, std::string& said) : held(opens), order(said) {}
    uint64_t size() const override { return 1 * MiB; }
    Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override {
      order += 'p';
      if (at == 0) co_return Result<void>{};
      co_return co_await held.write(from, at, deadline);
    }
    Task<Result<void>> read(MutableBytes, uint64_t, Deadline) override { co_return fail(Errc::unsupported, "held"); }
    HeldWindow held;
    std::string& order;
  };
  asio::io_context io;
  asio::steady_timer gate(io, asio::steady_timer::time_point::max());
  auto arena = std::move(*memory::Arena::create(4 * MiB));
  std::string order;
  WindowSink sink(std::make_unique<Window>(gate, order), std::chrono::seconds(60));
  std::string digested;
  sink.digest_with([&](Bytes bytes) {
    order += 'd';
    digested += static_cast<char>(bytes[4095]);
  });
  auto push = [&]() -> Task<void> {
    EXPECT_TRUE(co_await sink.begin(8192));
    for (const char fill : {'a', 'b'}) {
      memory::Chunk chunk{*arena->lease(4096), {}};
      std::memset(chunk.lease.data(), fill, 4096);
      chunk.bytes = Bytes(chunk.lease.data(), 4096);
      EXPECT_TRUE(co_await sink.push(std::move(chunk)));
    }
  };
  asio::co_spawn(io, push(), asio::detached);
  io.poll();
  EXPECT_EQ(order, "pdpd");
  EXPECT_EQ(digested, "ab");
  EXPECT_EQ(arena->leased_bytes(), 4096u) << "the second write is under way";
  gate.cancel();
  io.poll();
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

// Refuses each write.
class BrokenWindow final : public fabric::Window {
 public:
  explicit BrokenWindow(int& writes) : writes_(writes) {}
  uint64_t size() const override { return 1 * MiB; }
  Task<Result<void>> write(Bytes, uint64_t, Deadline) override {
    ++writes_;
    co_return fail(Errc::rdma_transfer_failed, "broken");
  }
  Task<Result<void>> read(MutableBytes, uint64_t, Deadline) override { co_return fail(Errc::unsupported, "broken"); }

 private:
  int& writes_;
};

// Starts what is spawned on it later than the caller goes on, as a strand does.
struct LaterExecutor {
  asio::io_context::executor_type inner;
  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return asio::query(inner, asio::execution::context);
  }
  LaterExecutor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
  template <class F>
  void execute(F f) const {
    asio::post(inner, std::move(f));
  }
  bool operator==(const LaterExecutor&) const noexcept = default;
};

Task<void> push_both(WindowSink& sink, memory::Chunk first, memory::Chunk second, std::optional<Result<void>>& ended) {
  EXPECT_TRUE(co_await sink.begin(first.bytes.size() + second.bytes.size()));
  EXPECT_TRUE(co_await sink.push(std::move(first)));
  EXPECT_TRUE(co_await sink.push(std::move(second)));
  ended = co_await sink.finish();
}

TEST(WindowSink, WritesNoPieceAfterOneThatFailedThoughBothWerePushed) {
  asio::io_context io;
  auto arena = std::move(*memory::Arena::create(4 * MiB));
  int writes = 0;
  WindowSink sink(std::make_unique<BrokenWindow>(writes), std::chrono::seconds(60));
  const auto piece = [&] {
    memory::Chunk chunk{*arena->lease(4096), {}};
    chunk.bytes = Bytes(chunk.lease.data(), 4096);
    return chunk;
  };
  std::optional<Result<void>> ended;
  asio::co_spawn(LaterExecutor{io.get_executor()}, push_both(sink, piece(), piece(), ended), asio::detached);
  io.run();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->error(), Errc::rdma_transfer_failed);
  EXPECT_EQ(writes, 1) << "the last write may tell the client that all have landed";
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST(WindowSink, PostsNothingAfterItsTimeHoweverEarlyItWasPushed) {
  asio::io_context io;
  asio::steady_timer gate(io, asio::steady_timer::time_point::max());
  auto arena = std::move(*memory::Arena::create(4 * MiB));
  WindowSink sink(std::make_unique<HeldWindow>(gate), std::chrono::seconds(60));
  sink.post_until(SteadyClock::now());
  memory::Chunk chunk{*arena->lease(4096), {}};
  chunk.bytes = Bytes(chunk.lease.data(), 4096);
  std::optional<Result<void>> drained;
  asio::co_spawn(io, push_and_drain(sink, std::move(chunk), drained), asio::detached);
  while (io.poll() != 0) {
  }
  ASSERT_TRUE(drained) << "nothing was posted that could be in flight";
  EXPECT_EQ(drained->error(), Errc::timed_out);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

}  // namespace
}  // namespace verbena::rdma
