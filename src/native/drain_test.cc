// GETs into a window: when one fails in the middle, nothing lands in the client's memory after the reply.
#include <boost/asio/async_result.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "native/test_door.h"

namespace verbena::native {
namespace {

// The client's memory, and the fabric's pending writes into it.
struct SlowMemory {
  std::string bytes = std::string(1 * MiB, '.');
  std::deque<std::function<void()>> posted;
  int windows = 0;  // open

  void land_one() {
    auto write = std::move(posted.front());
    posted.pop_front();
    write();
  }
};

// Completes a write when the test does so.
class SlowWindow final : public fabric::Window {
 public:
  explicit SlowWindow(SlowMemory& memory) : memory_(memory) { ++memory_.windows; }
  ~SlowWindow() override { --memory_.windows; }
  uint64_t size() const override { return memory_.bytes.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    SlowMemory& memory = memory_;
    auto initiate = [&memory, from, at](auto handler) {
      auto shared = std::make_shared<decltype(handler)>(std::move(handler));
      memory.posted.push_back([&memory, from, at, shared] {
        std::memcpy(memory.bytes.data() + at, from.data(), from.size());
        (*shared)();
      });
    };
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(initiate,
                                                                                        boost::asio::use_awaitable);
    co_return Result<void>{};
  }
  Task<Result<void>> read(MutableBytes, uint64_t, Deadline) override { co_return fail(Errc::unsupported); }

 private:
  SlowMemory& memory_;
};

class DrainTest : public DoorTest {
 protected:
  DrainTest() {
    port_.make_window = [this] { return std::make_unique<SlowWindow>(memory_); };
    store_.put("bucket", "k", std::string(1 * MiB, 'x'));
    store_.rot_at = 200 * KiB;  // in the fourth chunk on this small arena
  }
  wire::Get get_of_window() {
    wire::Get get;
    get.bucket = "bucket";
    get.key = "k";
    get.window = {0, memory_.bytes.size(), 1};
    return get;
  }
  // Every write lands in the end; there must be no reply before, and no write after it.
  void expect_drained(const FakePeer& peer) {
    ASSERT_FALSE(memory_.posted.empty()) << "the store failed before anything was posted: not the case in question";
    int landed = 0;
    while (!memory_.posted.empty()) {
      EXPECT_TRUE(port_.sent.empty()) << "a reply with " << memory_.posted.size() << " writes in flight";
      memory_.land_one();
      ++landed;
      run();
    }
    EXPECT_GT(landed, 1);
    EXPECT_EQ(reply_code(peer), Errc::corrupt_object);
    EXPECT_EQ(memory_.windows, 0) << "the window is closed";
    // The client takes the error as final and reuses its memory.
    memory_.bytes.assign(memory_.bytes.size(), 'c');
    run();
    EXPECT_TRUE(memory_.posted.empty());
    EXPECT_EQ(memory_.bytes.find_first_not_of('c'), std::string::npos);
    EXPECT_EQ(arena_->leased_bytes(), 0u);
    EXPECT_EQ(door_->in_flight(), 0u);
  }
  SlowMemory memory_;
};

TEST_F(DrainTest, AStoreErrorInAWindowGetIsToldWhenEveryPostedWriteHasLanded) {
  FakePeer peer = hello();
  deliver(peer, peer.seal(wire::Type::get, 2, get_of_window(), wire::flag_window));
  expect_drained(peer);
}

TEST_F(DrainTest, SoIsOneInAGetOfSeveralRanges) {
  FakePeer peer = hello();
  wire::Get get = get_of_window();
  get.ranges.add({0, 64 * KiB - 1});
  get.ranges.add({100 * KiB, 300 * KiB});
  get.ranges.add({400 * KiB, 500 * KiB});
  deliver(peer, peer.seal(wire::Type::get, 2, get, wire::flag_window));
  expect_drained(peer);
}

// Writes that are not possible at once go into the same window a moment later.
TEST_F(DrainTest, AHotObjectsWindowIsOpenedOnce) {
  store_.rot_at.reset();
  store_.is_hot = [](std::string_view) { return true; };
  int opened = 0;
  port_.make_window = [&] {
    ++opened;
    return std::make_unique<SlowWindow>(memory_);
  };
  FakePeer peer = hello();
  for (const uint64_t request : {2u, 3u}) {  // the first one waits, to read the bucket's access
    opened = 0;
    deliver(peer, peer.seal(wire::Type::get, request, get_of_window(), wire::flag_window));
    while (!memory_.posted.empty()) {
      memory_.land_one();
      run();
    }
    EXPECT_EQ(reply_code(peer), Errc::ok);
    EXPECT_EQ(opened, 1);
    EXPECT_EQ(memory_.bytes, std::string(1 * MiB, 'x'));
    memory_.bytes.assign(1 * MiB, '.');
  }
}

}  // namespace
}  // namespace verbena::native
