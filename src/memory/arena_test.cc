#include "memory/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace verbena::memory {
namespace {

TEST(Arena, LeasesAreAlignedAndInside) {
  auto arena = Arena::create(8 * MiB).value();
  for (size_t size : {size_t{1}, size_t{4096}, size_t{4097}, size_t{65536}, size_t{1 * MiB}, size_t{4 * MiB}}) {
    auto lease = arena->lease(size).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data()) % Arena::alignment, 0u);
    EXPECT_EQ(lease.size(), size);
    EXPECT_GE(lease.capacity(), size);
    EXPECT_TRUE(arena->contains(lease.data(), lease.capacity()));
    std::memset(lease.data(), 0x5a, lease.capacity());
  }
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST(Arena, RefusesSizesItCannotServe) {
  auto arena = Arena::create(4 * MiB).value();
  EXPECT_EQ(arena->lease(0).error().code, Errc::invalid_argument);
  EXPECT_EQ(arena->lease(4 * MiB + 1).error().code, Errc::invalid_argument);
  EXPECT_FALSE(Arena::create(0));
}

TEST(Arena, AFullArenaAnswersSlowDownAndRecovers) {
  auto arena = Arena::create(8 * MiB).value();
  std::vector<Lease> held;
  for (;;) {
    auto lease = arena->lease(64 * KiB);
    if (!lease) {
      EXPECT_EQ(lease.error().code, Errc::slow_down);
      break;
    }
    held.push_back(std::move(*lease));
  }
  EXPECT_EQ(held.size(), 8 * MiB / (64 * KiB));
  held.clear();
  EXPECT_TRUE(arena->lease(4 * MiB)) << "buddies did not merge";
}

TEST(Arena, RandomLeasesNeverOverlapAndAllComeBack) {
  auto arena = Arena::create(16 * MiB).value();
  std::mt19937 random(7);
  std::vector<std::pair<Lease, int>> held;
  for (int i = 0; i < 20'000; ++i) {
    if (held.empty() || random() % 2 == 0) {
      auto lease = arena->lease(1 + random() % (random() % 8 == 0 ? 1'000'000 : 20'000));
      if (!lease) continue;
      std::memset(lease->data(), i & 0xff, lease->size());
      held.emplace_back(std::move(*lease), i & 0xff);
    } else {
      std::swap(held[random() % held.size()], held.back());
      const auto& [lease, fill] = held.back();
      ASSERT_EQ(static_cast<int>(lease.bytes().front()), fill);
      ASSERT_EQ(static_cast<int>(lease.bytes().back()), fill);
      held.pop_back();
    }
  }
  held.clear();
  EXPECT_EQ(arena->leased_bytes(), 0u);
  std::vector<Lease> largest;
  for (int i = 0; i < 4; ++i) largest.push_back(arena->lease(4 * MiB).value());
}

TEST(Arena, ThreadsMayLeaseAndReturnAtOnce) {
  auto arena = Arena::create(16 * MiB).value();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&arena, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5'000; ++i) {
        auto lease = arena->lease(1 + random() % 100'000);
        if (lease) lease->data()[0] = std::byte{1};
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST(ArenaDeathTest, DestroyingItWithALeaseOutAborts) {
  EXPECT_DEATH(
      {
        auto arena = Arena::create(4 * MiB).value();
        auto* lease = new Lease(arena->lease(4096).value());
        arena.reset();
        delete lease;
      },
      "still leased");
}

}  // namespace
}  // namespace verbena::memory
