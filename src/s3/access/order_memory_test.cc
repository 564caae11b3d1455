#include "s3/access/order_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "s3/access/eviction_order.h"

namespace verbena::s3 {
namespace {

constexpr uint64_t most = 64 * 1024 * 1024;

TEST(OrderMemory, OneBucketHasAQuarterAndOthersFindRoom) {
  OrderMemory memory(most);
  const auto first = memory.bucket("a");
  EXPECT_EQ(first->allowed(), most / 4);
  OrderShare of_first(first);
  of_first.add(most / 4);
  EXPECT_FALSE(first->is_crowded());
  const auto of_same = memory.bucket("a"), of_other = memory.bucket("b");
  EXPECT_EQ(of_same->allowed(), (most / 2 - most / 4) / 2);
  EXPECT_EQ(of_other->allowed(), (most - most / 4) / 2 / 2);
  // What another account takes makes the part of the first smaller.
  OrderShare of_b(of_other);
  of_b.add(most / 8);
  EXPECT_TRUE(first->is_crowded());
  EXPECT_EQ(first->allowed(), (most - most / 8) / 2 / 2);
}

TEST(OrderMemory, ManyBucketsAtTheirLimitStayBelowTheSum) {
  OrderMemory memory(most);
  std::vector<OrderShare> shares;
  std::vector<OrderMemory::BucketPtr> buckets;
  for (int i = 0; i < 40; ++i) {
    buckets.push_back(memory.bucket("account" + std::to_string(i % 4)));
    shares.emplace_back(buckets.back());
  }
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 0; i < shares.size(); ++i) {
      const uint64_t allowed = buckets[i]->allowed(), has = shares[i].bytes();
      allowed > has ? shares[i].add(allowed - has) : shares[i].sub(has - allowed);
    }
  }
  EXPECT_LE(memory.bytes(), most);
  EXPECT_GT(memory.bytes(), most / 2);
  shares.clear();
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(OrderMemory, ABucketMayAlwaysHaveALittle) {
  OrderMemory memory(0);
  const auto bucket = memory.bucket("a");
  EXPECT_EQ(bucket->allowed(), OrderMemory::least_bytes);
  EXPECT_GT(bucket->objects_max(0), 100U);
}

TEST(OrderMemory, ObjectsAreCountedByTheirMeanSize) {
  OrderMemory memory(most);
  const auto bucket = memory.bucket("a");
  OrderShare share(bucket);
  share.add(10 * 1000);
  EXPECT_EQ(bucket->objects_max(10), most / 4 / 1000);
}

TEST(OrderMemory, ManySmallBucketsOfOneAccountLeaveOthersTheirPart) {
  OrderMemory memory(most);
  const auto other = memory.bucket("b");
  std::vector<OrderMemory::BucketPtr> many;
  std::vector<OrderShare> shares;
  for (uint64_t i = 0; i < 2 * most / OrderMemory::least_bytes; ++i) many.push_back(memory.bucket("a"));
  for (const auto& bucket : many) shares.emplace_back(bucket).add(OrderMemory::least_bytes);
  EXPECT_TRUE(many.front()->is_crowded());
  EXPECT_GE(other->allowed(), most / 8) << "whatever the others hold";
}

TEST(OrderMemory, AnOrderIsChargedWhileItHasObjectsAndWhereverItIsMoved) {
  OrderMemory memory(most);
  const auto bucket = memory.bucket("a");
  std::optional<EvictionOrder> moved;
  {
    EvictionOrder order(EvictionPolicy::s3_fifo, {}, OrderShare(bucket));
    for (int i = 0; i < 10; ++i) order.put({.key = "k" + std::to_string(i), .size = 1});
    EXPECT_EQ(bucket->bytes(), 10 * (OrderMemory::entry_bytes + 2));
    order.put({.key = "k1", .size = 7});
    order.put_oldest({.key = "k1", .size = 7});
    EXPECT_EQ(bucket->bytes(), 10 * (OrderMemory::entry_bytes + 2)) << "the same object";
    order.erase("k1");
    EXPECT_EQ(bucket->bytes(), 9 * (OrderMemory::entry_bytes + 2));
    moved.emplace(std::move(order));
  }
  EXPECT_EQ(bucket->bytes(), 9 * (OrderMemory::entry_bytes + 2));
  EXPECT_TRUE(moved->forget(4));
  EXPECT_EQ(bucket->bytes(), 5 * (OrderMemory::entry_bytes + 2));
  moved.reset();
  EXPECT_EQ(memory.bytes(), 0U);
}

}  // namespace
}  // namespace verbena::s3
