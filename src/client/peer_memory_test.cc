#include "client/peer_memory.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

constexpr Deadline begin{1h};

PeerPlace place(uint64_t id) { return PeerPlace::of(memory::cuda::Platform::cuda, {{.begin = 4096, .id = id}}); }

TEST(RefusedPlaces, RestUntilTheirTimeIsOver) {
  RefusedPlaces refused;
  EXPECT_FALSE(refused.has(place(1), begin));
  refused.add(place(1), begin + 10s);
  EXPECT_TRUE(refused.has(place(1), begin + 9s));
  EXPECT_FALSE(refused.has(place(1), begin + 10s));
  EXPECT_FALSE(refused.has(place(2), begin)) << "an allocation that came to the same address later";
  refused.add(place(1), begin + 20s);
  EXPECT_TRUE(refused.has(place(1), begin + 19s));
}

TEST(RefusedPlaces, OfOtherAllocationsDevicesAndDriversAreOthers) {
  using memory::cuda::Platform;
  RefusedPlaces refused;
  refused.add(PeerPlace::of(Platform::cuda, {{.begin = 4096, .id = 1}, {.begin = 8192, .id = 2}}), begin + 10s);
  EXPECT_FALSE(refused.has(place(1), begin));
  EXPECT_FALSE(refused.has(PeerPlace::of(Platform::rocm, {{.begin = 4096, .id = 1}, {.begin = 8192, .id = 2}}), begin));
  EXPECT_FALSE(refused.has(
      PeerPlace::of(Platform::cuda, {{.device = 1, .begin = 4096, .id = 1}, {.device = 1, .begin = 8192, .id = 2}}),
      begin));
  EXPECT_TRUE(refused.has(PeerPlace::of(Platform::cuda, {{.begin = 4096, .id = 1}, {.begin = 8192, .id = 2}}), begin));
}

TEST(RefusedPlaces, AreManyAtMostOfWhichTheOldestGoFirst) {
  RefusedPlaces refused;
  for (uint64_t id = 0; id < RefusedPlaces::places_max + 10; ++id) refused.add(place(id), begin + id * 1s);
  size_t kept = 0;
  for (uint64_t id = 0; id < RefusedPlaces::places_max + 10; ++id) kept += refused.has(place(id), Deadline()) ? 1 : 0;
  EXPECT_EQ(kept, RefusedPlaces::places_max);
  EXPECT_FALSE(refused.has(place(9), Deadline()));
  EXPECT_TRUE(refused.has(place(10), Deadline()));
}

}  // namespace
}  // namespace verbena::client
