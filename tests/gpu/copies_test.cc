// How often a CPU copies an object's bytes between the server's memory and a GPU's: not at all by the way `direct`,
// once by the way `shared`. Counted by the driver double, which sees every call of the C library's copies in this
// process, in which server and client both are.
#include "direct_world.h"

namespace verbena::matrix {
namespace {

// Of bytes that are all the same, by which a copy is known, and so few that the server does not copy them past its
// caches with instructions of its own (base/copy.h).
constexpr size_t few = 48 * 1024;

class CpuCopies : public Direct {
 protected:
  void SetUp() override {
    if (!double_sees_copies()) GTEST_SKIP() << "the double sees copies on x86-64, without sanitizers";
    Direct::SetUp();
  }
  void TearDown() override {
    double_watch_copies(-1);
    Direct::TearDown();
  }
  static std::vector<std::byte> bytes(size_t size, uint8_t value) {
    return std::vector<std::byte>(size, std::byte{value});
  }
  // Copied bytes of that value, in the call.
  template <class Call>
  static uint64_t copied(uint8_t value, Call call) {
    double_watch_copies(value);
    call();
    const uint64_t all = double_copied();
    double_watch_copies(-1);
    return all;
  }
  void expect_copies(const Client& c, DevicePath path, unsigned times) {
    constexpr uint8_t stored_byte = 0xb7, sent_byte = 0xc9;
    OnDevice memory(3 * mib);
    const Buffer all = *c.register_memory(memory.all());
    ASSERT_TRUE(http().put("bucket", "key", bytes(few, stored_byte)));
    ASSERT_TRUE(c.get("bucket", "key", all));  // the session, the sharing, and the object in the hot tier
    const uint64_t by_get = copied(stored_byte, [&] {
      const auto got = c.get("bucket", "key", all);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.device_path, path) << got->transfer.fell_back_reason;
    });
    EXPECT_EQ(by_get, times * few);
    EXPECT_TRUE(same(memory.bytes(0, few), bytes(few, stored_byte)));
    // A small object is collected in a block by the store, on every way (store/local/blob_writer).
    for (const auto& [size, in_store] : {std::pair(few, few), std::pair(3 * mib, size_t{0})}) {
      SCOPED_TRACE(size);
      memory.set(bytes(size, sent_byte));
      const uint64_t by_put = copied(sent_byte, [&] {
        const auto put = c.put("bucket", "put", all.slice(0, size));
        ASSERT_TRUE(put) << put.error().message;
        EXPECT_EQ(put->transfer.device_path, path) << put->transfer.fell_back_reason;
      });
      EXPECT_EQ(by_put, times * size + in_store);
      EXPECT_TRUE(same(stored("put", size), bytes(size, sent_byte)));
    }
    const DeviceCounters counted = c.device_counters();
    EXPECT_EQ((path == DevicePath::direct ? counted.direct : counted.shared).transfers, 4u);
    EXPECT_EQ(counted.direct.transfers + counted.shared.transfers + counted.staged.transfers, 4u);
  }
};

TEST_F(CpuCopies, AreNoneByTheWayDirect) { expect_copies(local(), DevicePath::direct, 0); }

TEST_F(CpuCopies, AreOneByTheWayShared) {
  double_fail("cuIpcGetMemHandle", 801, 0);
  expect_copies(local(), DevicePath::shared, 1);
}

// A copy of this test's own is seen: the double stands before the C library.
TEST_F(CpuCopies, AreSeen) {
  const auto from = bytes(few, 0xd3);
  std::vector<std::byte> to(few);
  EXPECT_EQ(copied(0xd3, [&] { std::memcpy(to.data(), from.data(), few); }), few);
  EXPECT_EQ(copied(0xd3, [&] { std::memmove(to.data() + 1, to.data(), few - 1); }), few - 1);
  EXPECT_EQ(copied(0xd4, [&] { std::memcpy(to.data(), from.data(), few); }), 0u);
}

// A GPU is none of its business.
TEST_F(CpuCopies, AHostsTransfersCallNothingOfTheDriver) {
  const auto small = random_bytes(1000, 1), large = random_bytes(5 * mib, 2);
  std::vector<std::byte> into(5 * mib);
  std::vector<Client> clients;
  for (const Way& way : every_way()) clients.push_back(client(way.via, way.provider));
  const unsigned before_them = double_all_calls();
  for (const Client& c : clients) {
    for (const auto& bytes : {small, large}) {
      ASSERT_TRUE(c.put("bucket", "host", bytes));
      for (int i = 0; i < 20; ++i) {
        const auto got = c.get("bucket", "host", into);
        ASSERT_TRUE(got) << got.error().message;
        ASSERT_TRUE(same(std::span(into).first(bytes.size()), bytes));
      }
    }
  }
  EXPECT_EQ(double_all_calls(), before_them);
  OnDevice memory(mib);
  ASSERT_TRUE(clients.front().put("bucket", "device", *clients.front().register_memory(memory.all())));
  EXPECT_GT(double_all_calls(), before_them);  // which are counted
}

}  // namespace
}  // namespace verbena::matrix
