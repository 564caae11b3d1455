// What clients/compat finds around an address, whose registrations may overlap.
#include "compat/registrations.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace verbena::compat {
namespace {

// A size that counts how often it is read.
struct CountedSize {
  static inline size_t reads = 0;
  size_t bytes = 0;
  operator size_t() const {
    ++reads;
    return bytes;
  }
};
struct Pin {
  CountedSize size;
};
using Pins = Registrations<Pin>;

void* at(size_t address) { return reinterpret_cast<void*>(address); }

bool add(Pins& pins, size_t address, size_t size) { return pins.add(at(address), Pin{{size}}).second; }

// The beginning of the one that holds the bytes; 0: none does.
size_t holder(Pins& pins, size_t address, size_t offset, size_t size) {
  const auto place = pins.holding(at(address), offset, size);
  return place == pins.end() ? 0 : reinterpret_cast<size_t>(place->first);
}

TEST(CompatRegistrations, BytesAreHeldByOneOfThoseAround) {
  Pins pins;
  EXPECT_TRUE(add(pins, 1000, 1000));
  EXPECT_TRUE(add(pins, 1100, 500));
  EXPECT_TRUE(add(pins, 1200, 10));
  EXPECT_FALSE(add(pins, 1200, 20)) << "there is one from that address on";
  EXPECT_EQ(holder(pins, 1205, 0, 5), 1200u);
  EXPECT_EQ(holder(pins, 1205, 0, 6), 1000u) << "longer than the nearest";
  EXPECT_EQ(holder(pins, 1150, 0, 450), 1100u);
  EXPECT_EQ(holder(pins, 1150, 50, 401), 1000u);
  EXPECT_EQ(holder(pins, 1000, 999, 1), 1000u);
  EXPECT_EQ(holder(pins, 1000, 1000, 1), 0u);
  EXPECT_EQ(holder(pins, 1000, 1, SIZE_MAX), 0u);
  EXPECT_EQ(holder(pins, 999, 1, 1), 0u) << "the address itself is not registered";
  EXPECT_EQ(holder(pins, 2000, 0, 1), 0u);
  EXPECT_EQ(pins.reach(at(1205)), 795u);
  EXPECT_EQ(pins.reach(at(1999)), 1u);
  EXPECT_EQ(pins.reach(at(2000)), 0u);
  EXPECT_EQ(pins.reach(at(999)), 0u);
  EXPECT_STREQ(pins.refusal(at(1205)), "not inside the registered memory");
  EXPECT_STREQ(pins.refusal(at(2000)), "not registered");
}

TEST(CompatRegistrations, WhenTheLongestGoesTheOthersStay) {
  Pins pins;
  for (const auto& [address, size] : {std::pair(1000, 1000), std::pair(1100, 500), std::pair(1200, 10)}) {
    add(pins, address, size);
  }
  pins.erase(pins.find(at(1000)));
  EXPECT_EQ(holder(pins, 1205, 0, 100), 1100u);
  EXPECT_EQ(pins.reach(at(1205)), 395u);
  EXPECT_EQ(pins.reach(at(1700)), 0u);
  pins.erase(pins.find(at(1100)));
  EXPECT_EQ(pins.reach(at(1205)), 5u);
  pins.erase(pins.find(at(1200)));
  EXPECT_TRUE(pins.empty());
  EXPECT_EQ(pins.reach(at(1205)), 0u);
}

// Compared with what a look at all of them finds.
TEST(CompatRegistrations, WhateverComesAndGoesTheAnswersAreThoseOfALookAtAll) {
  std::mt19937 random(7);
  const auto below = [&](size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); };
  Pins pins;
  std::map<size_t, size_t> all;
  for (int step = 0; step < 4000; ++step) {
    const size_t address = 1 + below(200);
    if (all.contains(address) && below(2) == 0) {
      pins.erase(pins.find(at(address)));
      all.erase(address);
    } else if (const size_t size = 1 + below(60); add(pins, address, size)) {
      all.emplace(address, size);
    }
    const size_t memory = 1 + below(280), offset = below(20), size = 1 + below(40);
    size_t reach = 0;
    for (const auto& [begin, bytes] : all) {
      if (begin <= memory && memory < begin + bytes) reach = std::max(reach, begin + bytes - memory);
    }
    ASSERT_EQ(pins.reach(at(memory)), reach) << step;
    const size_t found = holder(pins, memory, offset, size);
    ASSERT_EQ(found != 0, offset + size <= reach) << step;
    if (found == 0) continue;
    ASSERT_LE(found, memory) << step;
    ASSERT_GE(found + all.at(found), memory + offset + size) << step;
  }
}

// An arena, and each of the tensors in it.
TEST(CompatRegistrations, ALookUpDoesNotGoThroughAllOfThem) {
  constexpr size_t tensors = 20'000, bytes = 64, arena = 1'000'000;
  Pins pins;
  add(pins, arena, 2 * tensors * bytes);
  for (size_t i = 0; i < tensors; ++i) add(pins, arena + bytes + i * bytes, bytes);
  const size_t last = arena + tensors * bytes;
  CountedSize::reads = 0;
  EXPECT_EQ(holder(pins, last, 0, bytes), last);
  EXPECT_EQ(holder(pins, last, 0, bytes + 1), arena);
  EXPECT_EQ(pins.reach(at(last)), tensors * bytes);
  EXPECT_EQ(holder(pins, arena + (tensors + 2) * bytes, 0, bytes), arena) << "behind the last tensor";
  EXPECT_LT(CountedSize::reads, 20u);
  CountedSize::reads = 0;
  pins.erase(pins.find(at(last)));
  add(pins, last, bytes);
  EXPECT_LT(CountedSize::reads, 20u) << "nor does a registration beside them";
}

}  // namespace
}  // namespace verbena::compat
