#include "fabric/local/recent_targets.h"

#include <gtest/gtest.h>

#include <memory>

namespace verbena::fabric::local {
namespace {

constexpr size_t MiB = 1 << 20;

// Addresses only: nothing is read or written there.
const std::byte* at(uint64_t place) { return reinterpret_cast<const std::byte*>((uint64_t{1} << 40) + place); }

TEST(RecentTargets, KnowsWhatWasWrittenWithinItsWindow) {
  auto recent = std::make_unique<RecentTargets>();
  EXPECT_FALSE(recent->note(at(0), MiB));
  EXPECT_TRUE(recent->note(at(0), MiB));
  EXPECT_TRUE(recent->note(at(MiB - 1), MiB)) << "a byte of it";
  EXPECT_FALSE(recent->note(at(2 * MiB), MiB)) << "right behind";
  EXPECT_TRUE(recent->note(at(0), MiB));
}

TEST(RecentTargets, ForgetsWhatIsLongAgo) {
  auto recent = std::make_unique<RecentTargets>();
  const uint64_t window = RecentTargets::window;
  EXPECT_FALSE(recent->note(at(0), MiB));
  for (uint64_t done = 0; done < window; done += MiB) EXPECT_FALSE(recent->note(at(2 * MiB + 2 * done), MiB));
  EXPECT_FALSE(recent->note(at(0), MiB));
  EXPECT_TRUE(recent->note(at(0), MiB));
}

TEST(RecentTargets, TakesPiecesThatGoOnForOne) {
  auto recent = std::make_unique<RecentTargets>();
  constexpr size_t piece = 64 << 10;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t place = 0; place < 8 * MiB; place += piece) {
      EXPECT_EQ(recent->note(at(place), piece), round == 1) << place;
    }
  }
  // Twice the window: each place is written again when it is forgotten.
  for (int round = 0; round < 2; ++round) {
    for (uint64_t place = 0; place < 2 * RecentTargets::window; place += piece) {
      EXPECT_FALSE(recent->note(at(64 * MiB + place), piece)) << place;
    }
  }
}

TEST(RecentTargets, ManySmallOnesAreForgottenEarlier) {
  auto recent = std::make_unique<RecentTargets>();
  for (uint64_t i = 0; i < 200; ++i) EXPECT_FALSE(recent->note(at(2 * i * MiB), 4096));
  EXPECT_FALSE(recent->note(at(0), 4096));
  EXPECT_TRUE(recent->note(at(2 * 199 * MiB), 4096));
}

}  // namespace
}  // namespace verbena::fabric::local
