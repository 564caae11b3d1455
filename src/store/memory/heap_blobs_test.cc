#include "store/memory/heap_blobs.h"

#include <gtest/gtest.h>

namespace verbena::store::in_memory {
namespace {

TEST(HeapAccount, ABlockThatWasFreedIsTheNextOfItsSize) {
  Account account;
  std::byte* const small = account.take(4 * KiB);
  std::byte* const large = account.take(64 * KiB);
  account.give_back(small, 4 * KiB);
  account.give_back(large, 64 * KiB);
  EXPECT_EQ(account.take(64 * KiB), large);
  EXPECT_EQ(account.take(4 * KiB), small);
  account.give_back(small, 4 * KiB);
  account.give_back(large, 64 * KiB);
}

TEST(HeapAccount, KeepsABoundedSum) {
  Account account;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(account.take(64 * KiB));
  for (std::byte* const block : blocks) account.give_back(block, 64 * KiB);
  EXPECT_EQ(account.kept_bytes(), Account::kept_bytes_max);
}

}  // namespace
}  // namespace verbena::store::in_memory
