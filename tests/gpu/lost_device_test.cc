// Devices that are lost while they copy for a server (the way `direct`): errors or a slower way for those whose memory
// is there, no wrong byte, and the server and its other devices go on.
#include <atomic>
#include <future>

#include "direct_world.h"

namespace verbena::matrix {
namespace {

class LostDevice : public Direct {
 protected:
  void TearDown() override {
    double_hold_all(false);
    double_lose(0, false);
    Direct::TearDown();
  }
};

// The loss was timed by a pause, and sometimes came before the copies that it was to meet.
TEST_F(LostDevice, IsTheClientsErrorAndTheServerGoesOn) {
  const Client c = local();
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(3 * mib), other(3 * mib, 1);
  const Buffer window = *c.register_memory(memory.all()), second = *c.register_memory(other.all());
  ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  double_hold_all(true);
  const unsigned given = double_calls("cuMemcpyHtoDAsync_v2");
  auto got_nothing = std::async(std::launch::async, [&] { return !c.get("bucket", "key", window); });
  EXPECT_TRUE(eventually([&] { return double_calls("cuMemcpyHtoDAsync_v2") > given; }));
  double_lose(0, true);
  double_hold_all(false);
  EXPECT_TRUE(got_nothing.get());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(c.put("bucket", "other", window));
  std::vector<std::byte> host(3 * mib);
  ASSERT_TRUE(c.get("bucket", "key", host));
  EXPECT_TRUE(same(host, bytes));
  ASSERT_EQ(c.get("bucket", "key", second)->transfer.device_path, DevicePath::direct);  // the other device
  EXPECT_TRUE(same(other.bytes(0, 3 * mib), bytes));
  double_lose(0, false);  // the driver works again for the client; the server has given the device up
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_TRUE(same(memory.bytes(0, 3 * mib), bytes));
  EXPECT_EQ(Kept().lost, before.lost + 1);
}

// The server was given each of its copies again, and never gave it up.
TEST_F(LostDevice, IsNoticedAlsoWhereNothingWasUnderWay) {
  const Client c = local();
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  double_lose(0, true);
  EXPECT_FALSE(c.get("bucket", "key", window));
  EXPECT_TRUE(eventually([&] { return Kept().lost == before.lost + 1; }));
  double_lose(0, false);
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
  EXPECT_EQ(Kept().lost, before.lost + 1);
}

// What one caller has seen of its calls: GETs, PUTs and batches, each with other bytes.
class Caller {
 public:
  static constexpr size_t size = 700'001, guard = 4096, item = 60'001, items = 5;

  Caller(const Client& client, unsigned number) : client_(client), number_(number), memory_(size + guard, device()) {}

  int device() const { return static_cast<int>(number_ % 2); }
  // Until `rounds` of them have begun after the loss.
  void run(const std::atomic<bool>& lost, std::atomic<unsigned>& done, unsigned rounds) {
    const auto window = client_.register_memory(memory_.part(0, size));
    ASSERT_TRUE(window) << window.error().message;
    for (unsigned turn = 0, after = 0; after < rounds; ++turn) {
      after += lost ? 1 : 0;
      put(*window, turn);
      get(*window);
      batch(*window, turn);
      ++done;
    }
  }
  // Of a PUT that failed it is not known whether it happened, but what is stored is one of those that were tried.
  void expect_nothing_else(const std::vector<std::byte>& stored) const {
    bool found = false;
    for (unsigned turn = acknowledged_; turn <= tried_; ++turn) found = found || same(stored, bytes_of(turn));
    EXPECT_TRUE(found) << number_;
  }
  std::string key() const { return "put/" + std::to_string(number_); }
  unsigned succeeded = 0, failed = 0, not_direct = 0;

 private:
  std::vector<std::byte> bytes_of(unsigned turn) const { return random_bytes(size, number_ * 100'000 + turn); }
  template <class Outcome>
  bool counted(const Outcome& outcome, DevicePath path) {
    ++(outcome ? succeeded : failed);
    if (outcome && path != DevicePath::direct) ++not_direct;
    return outcome.has_value();
  }
  void put(const Buffer& window, unsigned turn) {
    memory_.set(bytes_of(turn));
    tried_ = turn;
    const auto put = client_.put("bucket", key(), window);
    if (counted(put, put ? put->transfer.device_path : DevicePath::none)) acknowledged_ = turn;
  }
  void get(const Buffer& window) {
    const std::vector<std::byte> end = memory_.bytes(size, guard);
    const auto got = client_.get("bucket", "from-host", window);
    if (counted(got, got ? got->transfer.device_path : DevicePath::none)) {
      EXPECT_TRUE(same(memory_.bytes(0, size), random_bytes(size, 1)));
    }
    EXPECT_TRUE(same(memory_.bytes(size, guard), end));
  }
  void batch(const Buffer& window, unsigned turn) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < items; ++i) keys.push_back("item/" + std::to_string((turn + i) % items));
    std::vector<BatchItem> wanted;
    for (size_t i = 0; i < items; ++i) {
      wanted.push_back({.bucket = "bucket", .key = keys[i], .offset = i * (item + 5), .size = item});
    }
    std::vector<BatchResult> results(items);
    const auto got = client_.get_many(wanted, std::span(&window, 1), results);
    if (!counted(got, got ? got->device_path : DevicePath::none)) return;
    for (size_t i = 0; i < items; ++i) {
      if (results[i].error) continue;
      EXPECT_TRUE(same(memory_.bytes(wanted[i].offset, item), random_bytes(item, 10 + (turn + i) % items)));
    }
  }

  const Client& client_;
  const unsigned number_;
  OnDevice memory_;
  unsigned tried_ = 0, acknowledged_ = 0;
};

TEST_F(LostDevice, UnderManyCallersBringsNoWrongByteAndTheOtherDeviceGoesOn) {
  constexpr unsigned count = 8;
  ASSERT_TRUE(http().put("bucket", "from-host", random_bytes(Caller::size, 1)));
  for (size_t i = 0; i < Caller::items; ++i) {
    ASSERT_TRUE(http().put("bucket", "item/" + std::to_string(i), random_bytes(Caller::item, 10 + i)));
  }
  const Client one = local(), other = local();
  std::vector<std::unique_ptr<Caller>> callers;
  for (unsigned i = 0; i < count; ++i) callers.push_back(std::make_unique<Caller>(i < count / 2 ? one : other, i));
  double_delay(300);
  std::atomic<bool> lost{false};
  std::atomic<unsigned> done{0};
  {
    std::vector<std::jthread> threads;
    for (const auto& caller : callers) threads.emplace_back([&, at = caller.get()] { at->run(lost, done, 4); });
    EXPECT_TRUE(eventually([&] { return done >= 3 * count; }));
    double_lose(0, true);
    lost = true;
  }
  double_delay(0);
  for (const auto& caller : callers) {
    SCOPED_TRACE(caller->key());
    EXPECT_GT(caller->succeeded, 0u);
    EXPECT_EQ(caller->failed != 0, caller->device() == 0) << caller->failed;
    if (caller->device() == 1) {
      EXPECT_EQ(caller->not_direct, 0u);
    }
    caller->expect_nothing_else(stored(caller->key(), Caller::size));
  }
  EXPECT_EQ(Kept().lost, before.lost + 1);
}

}  // namespace
}  // namespace verbena::matrix
