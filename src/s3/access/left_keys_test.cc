#include "s3/access/left_keys.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace verbena::s3 {
namespace {

size_t hash_of(int key) { return std::hash<std::string>{}("key " + std::to_string(key)); }

TEST(LeftKeys, TheLastOnesAreKnownAndEarlierOnesAreNot) {
  constexpr int last = 1000, all = 5000;
  LeftKeys left;
  EXPECT_FALSE(left.has(hash_of(0), last));
  for (int key = 0; key < all; ++key) left.add(hash_of(key), last);
  int known = 0;
  for (int key = all - last; key < all; ++key) known += left.has(hash_of(key), last) ? 1 : 0;
  EXPECT_GE(known, last * 95 / 100);  // more than its places may fall into one set
  EXPECT_TRUE(left.has(hash_of(all - 1), 1));
  EXPECT_FALSE(left.has(hash_of(all - 2), 1));
  for (int key = 0; key < all - last; ++key) EXPECT_FALSE(left.has(hash_of(key), last)) << key;
  for (int key = all; key < 2 * all; ++key) EXPECT_FALSE(left.has(hash_of(key), last)) << key;
}

TEST(LeftKeys, ATableThatIsTooSmallBeginsAnew) {
  LeftKeys left;
  left.add(hash_of(1), 10);
  left.add(hash_of(2), 10'000);
  EXPECT_FALSE(left.has(hash_of(1), 10'000));
  EXPECT_TRUE(left.has(hash_of(2), 10'000));
  left.clear();
  EXPECT_FALSE(left.has(hash_of(2), 10'000));
}

}  // namespace
}  // namespace verbena::s3
