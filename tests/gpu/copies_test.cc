// How often a CPU copies an object's bytes between the server's memory and a GPU's: not at all by the way `direct`,
// once by the way `shared`. Counted by the driver double, which sees every call of the C library's copies in this
// process, in which server and client both are, and of the server's copies past its caches.
#include "direct_world.h"

namespace verbena::matrix {

// In place of copy_past_caches() (base/copy.h), whose own instructions the double does not see: the linker's --wrap.
void past_caches(std::byte* to, const std::byte* from,
                 size_t size) __asm__("__real__ZN7verbena16copy_past_cachesEPSt4bytePKS0_m");
void noted_past_caches(std::byte* to, const std::byte* from,
                       size_t size) __asm__("__wrap__ZN7verbena16copy_past_cachesEPSt4bytePKS0_m");

static std::atomic<unsigned> copies_past_caches{0};

void noted_past_caches(std::byte* to, const std::byte* from, size_t size) {
  ++copies_past_caches;
  double_note_copy(from, size);
  past_caches(to, from, size);
}

namespace {

// Of bytes that are all the same, by which a copy is known.
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
  void expect_by_get(const Client& c, const Buffer& all, DevicePath path, unsigned times, size_t size) {
    SCOPED_TRACE(size);
    constexpr uint8_t stored_byte = 0xb7;
    ASSERT_TRUE(http().put("bucket", "key", bytes(size, stored_byte)));
    ASSERT_TRUE(c.get("bucket", "key", all));  // the session, the sharing, and the object in the hot tier
    memory.set(bytes(size, 0));
    const uint64_t by_get = copied(stored_byte, [&] {
      const auto got = c.get("bucket", "key", all);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.device_path, path) << got->transfer.fell_back_reason;
    });
    EXPECT_EQ(by_get, times * size);
    EXPECT_TRUE(same(memory.bytes(0, size), bytes(size, stored_byte)));
  }
  // `in_store`: bytes that the store itself copies.
  void expect_by_put(const Client& c, const Buffer& all, DevicePath path, unsigned times, size_t size,
                     size_t in_store) {
    SCOPED_TRACE(size);
    constexpr uint8_t sent_byte = 0xc9;
    memory.set(bytes(size, sent_byte));
    const uint64_t by_put = copied(sent_byte, [&] {
      const auto put = c.put("bucket", "put", all.slice(0, size));
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, path) << put->transfer.fell_back_reason;
    });
    EXPECT_EQ(by_put, times * size + in_store);
    EXPECT_TRUE(same(stored("put", size), bytes(size, sent_byte)));
  }
  // An item that the client's ring has no room for.
  void expect_by_batch(const Client& c, const Buffer& all, DevicePath path, unsigned times) {
    constexpr size_t size = 9 * mib;
    constexpr uint8_t item_byte = 0xe5;
    const BatchItem item{.bucket = "bucket", .key = "item", .offset = mib, .size = size};
    memory.set(bytes(all.size(), item_byte));
    BatchResult result;
    const uint64_t by_put = copied(item_byte, [&] {
      const auto put = c.put_many({&item, 1}, {&all, 1}, {&result, 1});
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->device_path, path) << put->fell_back_reason;
      EXPECT_FALSE(result.error);
    });
    EXPECT_EQ(by_put, times * size);
    memory.set(bytes(all.size(), 0));
    const uint64_t by_get = copied(item_byte, [&] {
      const auto got = c.get_many({&item, 1}, {&all, 1}, {&result, 1});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->device_path, path) << got->fell_back_reason;
      EXPECT_FALSE(result.error);
    });
    EXPECT_EQ(by_get, times * size);
    EXPECT_TRUE(same(memory.bytes(mib, size), bytes(size, item_byte)));
  }
  void expect_copies(const Client& c, DevicePath path, unsigned times) {
    const Buffer all = *c.register_memory(memory.all());
    for (const size_t size : {few, 16 * mib}) expect_by_get(c, all, path, times, size);
    // What is less than a block is collected in one by the store, on every way (store/local/blob_writer).
    expect_by_put(c, all, path, times, few, few);
    for (const size_t size : {3 * mib, 9 * mib, 21 * mib}) expect_by_put(c, all, path, times, size, 0);
    expect_by_put(c, all, path, times, 3 * mib + few, few);
    expect_by_batch(c, all, path, times);
    EXPECT_EQ(double_pageable(), 0u);
    const DeviceCounters counted = c.device_counters();
    EXPECT_EQ((path == DevicePath::direct ? counted.direct : counted.shared).transfers, 11u);
    EXPECT_EQ(counted.direct.transfers + counted.shared.transfers + counted.staged.transfers, 11u);
  }

  OnDevice memory{24 * mib};
};

TEST_F(CpuCopies, AreNoneByTheWayDirect) { expect_copies(local(), DevicePath::direct, 0); }

TEST_F(CpuCopies, AreOneByTheWayShared) {
  double_fail("cuIpcGetMemHandle", 801, 0);
  copies_past_caches = 0;
  expect_copies(local(), DevicePath::shared, 1);
  EXPECT_GT(copies_past_caches, 0u);  // they are among those that are counted
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
