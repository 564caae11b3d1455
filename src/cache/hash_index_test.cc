#include "cache/hash_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace verbena::cache {
namespace {

TEST(HashIndex, FindsWhatWasAssignedUntilItIsErased) {
  HashIndex<int> index;
  EXPECT_EQ(index.find(7), 0);
  index.assign(7, 1);
  index.assign(7, 2);
  EXPECT_EQ(index.find(7), 2);
  EXPECT_EQ(index.size(), 1U);
  index.erase(8);
  index.erase(7);
  EXPECT_EQ(index.find(7), 0);
  EXPECT_EQ(index.size(), 0U);
}

// Few slots for many hashes, so that runs form, wrap around, and are closed up in every way.
TEST(HashIndex, DoesAsAMapDoes) {
  std::mt19937_64 random(20261126);
  for (const uint64_t range : {12, 40, 3000}) {
    HashIndex<uint64_t, 4> index;
    std::unordered_map<uint64_t, uint64_t> map;
    for (int step = 1; step <= 30'000; ++step) {
      // Hashes with equal slots, at the end of the table or anywhere.
      const uint64_t hash = (random() % range) * (step % 3 == 0 ? 16 : 16 * 15) + 3;
      if (random() % 2 == 0) {
        index.assign(hash, step);
        map[hash] = step;
      } else {
        index.erase(hash);
        map.erase(hash);
      }
      index.fetch_ahead(hash);
      ASSERT_EQ(index.size(), map.size());
      const uint64_t other = (random() % range) * 16 + 3;
      const auto wanted = map.find(other);
      ASSERT_EQ(index.find(other), wanted == map.end() ? 0 : wanted->second);
    }
    for (const auto& [hash, value] : map) ASSERT_EQ(index.find(hash), value);
  }
}

}  // namespace
}  // namespace verbena::cache
