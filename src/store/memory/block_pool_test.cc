#include "store/memory/block_pool.h"

#include <gtest/gtest.h>

#include <utility>

namespace verbena::store::in_memory {
namespace {

TEST(BlockPool, WhatWasGivenIsTakenAgainForTheSameSizeAlone) {
  BlockPool pool;
  BlockPool::Memory first = pool.take(4096);
  const std::byte* const where = first.get();
  pool.give(std::move(first), 4096);
  for (uint32_t size = 4097; size < 4097 + 64; ++size) EXPECT_NE(pool.take(size).get(), where) << size;
  const BlockPool::Memory same = pool.take(4096), more = pool.take(4096);
  EXPECT_EQ(same.get(), where);
  EXPECT_NE(more.get(), where);
}

TEST(BlockPool, ASizeThatComesTakesThePlaceOfAnother) {
  BlockPool pool;
  for (uint32_t size = 4096; size < 4096 + 64; ++size) pool.give(pool.take(size), size);
  BlockPool::Memory last = pool.take(4096 + 63);
  const std::byte* const where = last.get();
  pool.give(std::move(last), 4096 + 63);
  EXPECT_EQ(pool.take(4096 + 63).get(), where);
}

}  // namespace
}  // namespace verbena::store::in_memory
