#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>

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
