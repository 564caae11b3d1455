#include "client/peer_memory.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

constexpr Deadline begin{1h};

PeerPlace place(uint64_t id) { return PeerPlace::of(memory::cuda::Platform::cuda, {{.begin = 4096, .id = id}}); }

TEST(RefusedPlaces, RestUntilTheirTimeIsOver) {
  RefusedPlaces refused;
  EXPECT_FALSE(refused.has(place(1), "verbs", begin));
  refused.add(place(1), "verbs", begin + 10s);
  EXPECT_TRUE(refused.has(place(1), "verbs", begin + 9s));
  EXPECT_FALSE(refused.has(place(1), "verbs", begin + 10s));
  EXPECT_FALSE(refused.has(place(2), "verbs", begin)) << "an allocation that came to the same address later";
  refused.add(place(1), "verbs", begin + 20s);
  EXPECT_TRUE(refused.has(place(1), "verbs", begin + 19s));
}

TEST(RefusedPlaces, OfOtherAllocationsDevicesAndDriversAreOthers) {
  using memory::cuda::Platform;
  const std::vector<memory::cuda::Allocation> both{{.begin = 4096, .id = 1}, {.begin = 8192, .id = 2}};
  RefusedPlaces refused;
  refused.add(PeerPlace::of(Platform::cuda, both), "verbs", begin + 10s);
  EXPECT_FALSE(refused.has(place(1), "verbs", begin));
  EXPECT_FALSE(refused.has(PeerPlace::of(Platform::rocm, both), "verbs", begin));
  EXPECT_FALSE(refused.has(
      PeerPlace::of(Platform::cuda, {{.device = 1, .begin = 4096, .id = 1}, {.device = 1, .begin = 8192, .id = 2}}),
      "verbs", begin));
  EXPECT_TRUE(refused.has(PeerPlace::of(Platform::cuda, both), "verbs", begin));
}

// Once a refusal kept the place from every provider.
TEST(RefusedPlaces, RestForTheProviderThatHasRefusedThem) {
  RefusedPlaces refused;
  refused.add(place(1), "verbs", begin + 10s);
  EXPECT_FALSE(refused.has(place(1), "efa", begin));
  refused.add(place(1), "efa", begin + 20s);
  EXPECT_TRUE(refused.has(place(1), "verbs", begin + 9s));
  EXPECT_FALSE(refused.has(place(1), "verbs", begin + 10s));
  EXPECT_TRUE(refused.has(place(1), "efa", begin + 19s));
}

TEST(RefusedPlaces, AreManyAtMostOfWhichTheOldestGoFirst) {
  RefusedPlaces refused;
  constexpr uint64_t count = RefusedPlaces::places_max + 10;
  for (uint64_t id = 0; id < count; ++id) refused.add(place(id), "verbs", begin + id * 1s);
  size_t kept = 0;
  for (uint64_t id = 0; id < count; ++id) kept += refused.has(place(id), "verbs", Deadline()) ? 1 : 0;
  EXPECT_EQ(kept, RefusedPlaces::places_max);
  EXPECT_FALSE(refused.has(place(9), "verbs", Deadline()));
  EXPECT_TRUE(refused.has(place(10), "verbs", Deadline()));
}

}  // namespace
}  // namespace verbena::client
