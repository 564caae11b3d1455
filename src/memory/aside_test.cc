#include "memory/aside.h"

#include <gtest/gtest.h>

#include <optional>

#include "memory/arena.h"

namespace verbena::memory {
namespace {

TEST(Aside, ALeaseThatACopyMayStillTouchIsNotLeasedAgainBeforeItsEnd) {
  auto arena = *Arena::create(4 * MiB);
  std::optional<Lease> lease = *arena->lease(4 * MiB);
  std::byte* const place = lease->data();
  std::optional<Aside> first(std::in_place, Bytes(place + MiB, 100)), second(std::in_place, Bytes(place + 2 * MiB, 1));
  lease.reset();
  EXPECT_FALSE(arena->lease(4096));
  EXPECT_EQ(arena->leased_bytes(), 4 * MiB);
  first.reset();
  EXPECT_FALSE(arena->lease(4096));
  second.reset();
  EXPECT_EQ(arena->leased_bytes(), 0u);
  EXPECT_TRUE(arena->lease(4 * MiB));
}

TEST(Aside, OtherLeasesAreGivenBackAsEver) {
  auto arena = *Arena::create(8 * MiB);
  std::optional<Lease> kept = *arena->lease(4 * MiB), other = *arena->lease(4 * MiB);
  std::optional<Aside> aside(std::in_place, Bytes(kept->bytes()));
  other.reset();
  EXPECT_EQ(arena->leased_bytes(), 4 * MiB);
  EXPECT_TRUE(arena->lease(4 * MiB));
  aside.reset();  // it ended before its lease did
  kept.reset();
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST(Aside, AnArenaEndsWithMemoryThatIsStillTouched) {
  auto arena = *Arena::create(4 * MiB);
  std::optional<Lease> lease = *arena->lease(MiB);
  std::byte* const place = lease->data();
  std::optional<Aside> aside(std::in_place, Bytes(lease->bytes()));
  lease.reset();
  arena.reset();
  *place = std::byte{1};  // a device may do so: the mapping is there
  aside.reset();
}

}  // namespace
}  // namespace verbena::memory
