#include "native/device_limits.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::native {
namespace {

TEST(DeviceLimits, BoundASessionAndAnAccount) {
  DeviceLimits limits({.session = {2, 100}, .account = {3, 150}});
  std::vector<DeviceLimits::Place> places;
  const auto take = [&](uint64_t session, const char* account, uint64_t bytes, size_t pieces = 1) {
    auto place = limits.take(session, account, {bytes, pieces});
    if (place) places.push_back(std::move(*place));
    return place.has_value();
  };
  EXPECT_FALSE(take(1, "a", 101));
  EXPECT_FALSE(take(1, "a", UINT64_MAX));
  EXPECT_TRUE(take(1, "a", 100));
  EXPECT_FALSE(take(1, "a", 1));
  EXPECT_TRUE(take(2, "a", 40));
  EXPECT_FALSE(take(3, "a", 11));  // the account's bytes
  EXPECT_TRUE(take(2, "a", 10));
  EXPECT_FALSE(take(3, "a", 0));  // the account's mappings
  EXPECT_FALSE(take(2, "b", 0));  // the session's
  EXPECT_TRUE(take(4, "b", 100));
  places.clear();
  EXPECT_TRUE(take(1, "a", 100));
  EXPECT_TRUE(take(2, "a", 50));
}

TEST(DeviceLimits, CountThePiecesOfMemory) {
  constexpr size_t each = DeviceLimits::pieces_each;
  DeviceLimits limits({.session = {2, 100}, .account = {3, 150}});
  EXPECT_FALSE(limits.take(1, "a", {1, 2 * each + 1}));
  auto first = limits.take(1, "a", {1, 2 * each});
  ASSERT_TRUE(first);
  EXPECT_FALSE(limits.take(1, "a", {1, 1}));         // the session's pieces
  EXPECT_FALSE(limits.take(2, "a", {1, each + 1}));  // the account's
  EXPECT_TRUE(limits.take(2, "a", {1, each}));
  first->reset();
  EXPECT_TRUE(limits.take(1, "a", {1, 2 * each}));
}

TEST(DeviceLimits, APlaceMayOutliveThem) {
  DeviceLimits::Place place;
  {
    DeviceLimits limits({.session = {1, 1}, .account = {1, 1}});
    place = *limits.take(1, "a", {1, 1});
  }
  place.reset();
}

}  // namespace
}  // namespace verbena::native
