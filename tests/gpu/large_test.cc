// Transfers that a client's ring has no room for: the memory that is page-locked for each, and what becomes of it where
// the driver refuses that, or does not answer.
#include "direct_world.h"

namespace verbena::matrix {
namespace {

constexpr size_t size = 9 * mib;

// By the way `shared`.
class Large : public Direct {
 protected:
  Large() : Direct(test_config()) {}
  Client limited(std::chrono::milliseconds limit) {
    ClientOptions given = options(Via::native, "local");
    given.operation_timeout = limit;
    return *Client::connect(given);
  }
  Outcome<Transfer> put_many(const Client& c, const Buffer& window) {
    auto put = c.put_many({&item, 1}, {&window, 1}, {&result, 1});
    EXPECT_EQ(result.error.has_value(), !put);
    return put;
  }
  Outcome<Transfer> get_many(const Client& c, const Buffer& window) {
    auto got = c.get_many({&item, 1}, {&window, 1}, {&result, 1});
    EXPECT_EQ(result.error.has_value(), !got);
    return got;
  }
  void expect_right_bytes(const Client& c, const Buffer& window) {
    const auto bytes = random_bytes(size, 3);
    memory.set(bytes);
    const auto put = c.put("bucket", "whole", window);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_TRUE(same(stored("whole", size), bytes));
    ASSERT_TRUE(put_many(c, window));
    EXPECT_TRUE(same(stored("item", size), bytes));
    memory.set(std::vector<std::byte>(size));
    ASSERT_TRUE(get_many(c, window));
    EXPECT_TRUE(same(memory.bytes(0, size), bytes));
  }

  OnDevice memory{size};
  const BatchItem item{.bucket = "bucket", .key = "item", .size = size};
  BatchResult result;
};

TEST_F(Large, IsPageLockedForTheCallAlone) {
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  expect_right_bytes(c, window);
  EXPECT_EQ(double_calls("cuMemHostRegister_v2"), 4u);  // the ring, and each of the three
  EXPECT_EQ(double_calls("cuMemHostUnregister"), 3u);
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(Large, IsCopiedAlsoWhereTheDriverRefusesToPageLockIt) {
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(http().put("bucket", "item", random_bytes(size, 1)));
  ASSERT_TRUE(c.get("bucket", "item", window));  // the ring is page-locked
  double_fail("cuMemHostRegister_v2", 2, 0);
  memory.set(random_bytes(size, 2));
  ASSERT_TRUE(c.put("bucket", "whole", window));
  EXPECT_EQ(double_pageable(), 0u);  // a PUT goes through the ring
  expect_right_bytes(c, window);
  EXPECT_EQ(double_pageable(), 6u);  // items of batches, in pieces of 4 MiB
  const Client other = local();
  expect_right_bytes(other, *other.register_memory(memory.all()));  // with no ring that is page-locked
}

TEST_F(Large, OfADeviceThatStopsIsTimedOut) {
  const Client c = limited(std::chrono::seconds(1));
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(http().put("bucket", "item", random_bytes(size, 1)));
  double_hold_all(true);
  const auto put = c.put("bucket", "other", window);
  const auto batch_put = put_many(c, window);
  const auto batch_got = get_many(c, window);
  double_hold_all(false);  // the copies run now, and their memory is still there, and page-locked
  for (const auto& code : {put ? std::nullopt : std::optional(put.error().code),
                           batch_put ? std::nullopt : std::optional(batch_put.error().code),
                           batch_got ? std::nullopt : std::optional(batch_got.error().code)}) {
    EXPECT_EQ(code, ErrorCode::timed_out);
  }
  EXPECT_EQ(double_pageable(), 0u);
  expect_right_bytes(local(), window);
}

TEST_F(Large, OfADriverThatDoesNotPageLockInTimeIsTimedOut) {
  const Client c = limited(std::chrono::seconds(1));
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.put("bucket", "small", window.slice(0, 1000)));  // the ring
  const unsigned locked = double_locked();
  double_block("cuMemHostRegister_v2", true);
  const auto put = c.put("bucket", "other", window);
  const auto batch_put = put_many(c, window);
  double_block("cuMemHostRegister_v2", false);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::timed_out);
  ASSERT_FALSE(batch_put);
  EXPECT_EQ(batch_put.error().code, ErrorCode::timed_out);
  // What it has page-locked after all is given up again.
  EXPECT_TRUE(eventually([&] { return double_calls("cuMemHostUnregister") == 2 && double_locked() == locked; }));
  expect_right_bytes(c, window);
}

TEST_F(Large, IsStoredAlsoWhereTheDriverDoesNotUnlockIt) {
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.put("bucket", "small", window.slice(0, 1000)));
  const unsigned locked = double_locked();
  double_block("cuMemHostUnregister", true);
  memory.set(random_bytes(size, 5));
  const auto put = c.put("bucket", "other", window);
  EXPECT_TRUE(put) << put.error().message;
  EXPECT_EQ(double_locked(), locked + 1);
  double_block("cuMemHostUnregister", false);
  EXPECT_TRUE(same(stored("other", size), random_bytes(size, 5)));
  EXPECT_TRUE(eventually([&] { return double_locked() == locked; }));
  expect_right_bytes(c, window);
}

}  // namespace
}  // namespace verbena::matrix
