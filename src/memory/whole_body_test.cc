#include "memory/whole_body.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include "memory/text_source.h"

namespace verbena::memory {
namespace {

const std::string large(1 * MiB, 'x');
const std::string half_as_large(500'000, 'x');

class WholeBodyTest : public ::testing::Test {
 protected:
  WholeBodyTest() : arena_(std::move(*Arena::create(16 * MiB))) {}
  Result<WholeBody> read(Source& text, size_t bytes_max, std::string_view peer = "10.0.0.1") {
    auto future = boost::asio::co_spawn(io_, read_whole(text, *arena_, peer, bytes_max), boost::asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  Budget& budget() { return arena_->budget(); }
  std::unique_ptr<Arena> arena_;
  boost::asio::io_context io_;
};

TEST_F(WholeBodyTest, ComesWholeOfAnySizeDeclaredOrNot) {
  for (const size_t size : {0u, 1u, 4095u, 4096u, 65'535u, 65'536u, 65'537u, 300'000u}) {
    for (const bool declared : {true, false}) {
      const std::string text(size, 'x');
      TextSource source(text, declared ? std::optional<uint64_t>(size) : std::nullopt);
      const auto whole = read(source, size);
      ASSERT_TRUE(whole) << size;
      EXPECT_EQ(whole->text, text);
    }
  }
}

TEST_F(WholeBodyTest, IsChargedForAsLongAsItIsHeld) {
  TextSource text(large);
  {
    const auto whole = read(text, 2 * MiB);
    ASSERT_TRUE(whole);
    EXPECT_GE(budget().charged_bytes(), 1 * MiB);
  }
  EXPECT_EQ(budget().charged_bytes(), 0u);
}

TEST_F(WholeBodyTest, IsRefusedWhereItIsTooLargeBeforeMuchIsTaken) {
  TextSource declared(large), not_declared(large, std::nullopt);
  EXPECT_EQ(read(declared, 1000).error(), Errc::too_large);
  EXPECT_EQ(declared.taken(), 0u);
  EXPECT_EQ(read(not_declared, 1000).error(), Errc::too_large);
  EXPECT_LE(not_declared.taken(), 16 * KiB);
  EXPECT_EQ(budget().charged_bytes(), 0u);
}

// Documents of one peer took all the memory: they were not charged to it.
TEST_F(WholeBodyTest, OfOnePeerTakesNoMoreThanItsShare) {
  Budget::Limits limits = budget().limits();
  limits.wait_max = std::chrono::milliseconds(10);
  limits.peer_max = 2 * MiB;
  budget().set_limits(limits);
  std::vector<WholeBody> held;
  Errc error = Errc::ok;
  for (int i = 0; i < 20 && error == Errc::ok; ++i) {
    TextSource text(half_as_large, std::nullopt);
    auto whole = read(text, 1 * MiB);
    if (whole) {
      held.push_back(std::move(*whole));
    } else {
      error = whole.error().code;
    }
  }
  EXPECT_EQ(error, Errc::slow_down);
  EXPECT_LE(held.size(), 4u);
  TextSource other(half_as_large, std::nullopt);
  EXPECT_TRUE(read(other, 1 * MiB, "10.0.0.2")) << "another peer has its own";
}

}  // namespace
}  // namespace verbena::memory
