#include "memory/whole_body.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <cstring>

namespace verbena::memory {
namespace {

class Text : public Source {
 public:
  Text(std::string text, bool declared) : text_(std::move(text)), declared_(declared) {}
  std::optional<uint64_t> size() const override {
    return declared_ ? std::optional<uint64_t>(text_.size()) : std::nullopt;
  }
  Task<Result<size_t>> read(MutableBytes into) override {
    const size_t n = std::min(into.size(), text_.size() - at_);
    std::memcpy(into.data(), text_.data() + at_, n);
    at_ += n;
    taken = at_;
    co_return n;
  }
  size_t taken = 0;

 private:
  std::string text_;
  bool declared_;
  size_t at_ = 0;
};

class WholeBodyTest : public ::testing::Test {
 protected:
  WholeBodyTest() : arena_(std::move(*Arena::create(16 * MiB))) {}
  Result<WholeBody> read(Text& text, size_t bytes_max, std::string_view peer = "10.0.0.1") {
    auto future =
        boost::asio::co_spawn(io_, read_whole(text, *arena_, peer, bytes_max), boost::asio::use_future);
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
      Text text(std::string(size, 'x'), declared);
      const auto whole = read(text, size);
      ASSERT_TRUE(whole) << size;
      EXPECT_EQ(whole->text, std::string(size, 'x'));
    }
  }
}

TEST_F(WholeBodyTest, IsChargedForAsLongAsItIsHeld) {
  Text text(std::string(1 * MiB, 'x'), true);
  {
    const auto whole = read(text, 2 * MiB);
    ASSERT_TRUE(whole);
    EXPECT_GE(budget().granted_bytes(), 1 * MiB);
  }
  EXPECT_EQ(budget().granted_bytes(), 0u);
}

TEST_F(WholeBodyTest, IsRefusedWhereItIsTooLargeBeforeMuchIsTaken) {
  Text declared(std::string(1 * MiB, 'x'), true), not_declared(std::string(1 * MiB, 'x'), false);
  EXPECT_EQ(read(declared, 1000).error(), Errc::too_large);
  EXPECT_EQ(declared.taken, 0u);
  EXPECT_EQ(read(not_declared, 1000).error(), Errc::too_large);
  EXPECT_LE(not_declared.taken, 16 * KiB);
  EXPECT_EQ(budget().granted_bytes(), 0u);
}

// Documents of one peer took all memory that there was: they were charged to nobody.
TEST_F(WholeBodyTest, OfOnePeerTakesNoMoreThanItsShare) {
  Budget::Limits limits = budget().limits();
  limits.wait_max = std::chrono::milliseconds(10);
  limits.peer_max = 2 * MiB;
  budget().set_limits(limits);
  std::vector<WholeBody> held;
  Errc error = Errc::ok;
  for (int i = 0; i < 20 && error == Errc::ok; ++i) {
    Text text(std::string(500'000, 'x'), false);
    auto whole = read(text, 1 * MiB);
    if (whole) {
      held.push_back(std::move(*whole));
    } else {
      error = whole.error().code;
    }
  }
  EXPECT_EQ(error, Errc::slow_down);
  EXPECT_LE(held.size(), 4u);
  Text other(std::string(500'000, 'x'), false);
  EXPECT_TRUE(read(other, 1 * MiB, "10.0.0.2")) << "another peer has its own";
}

}  // namespace
}  // namespace verbena::memory
