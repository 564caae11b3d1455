#include "base/owners_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace verbena {
namespace {

using Names = std::vector<std::string>;

std::string owner_of(const std::string& item) { return item.substr(0, 1); }

TEST(OwnersQueue, BeforeTheNthItemOfAnOwnerComeNOfEachOtherOwnerAtMost) {
  EXPECT_EQ(in_turns(Names{"a1", "a2", "a3", "a4", "b1", "b2", "c1"}, owner_of),
            (Names{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}));
  EXPECT_TRUE(in_turns(Names(), owner_of).empty());
}

TEST(OwnersQueue, WhatComesLaterWaitsForItsOwnersTurn) {
  OwnersQueue<std::string> queue;
  for (const char* item : {"a1", "a2", "b1"}) queue.add(owner_of(item), item);
  EXPECT_EQ(queue.next()->item, "a1");
  queue.add("c", "c1");
  queue.add("b", "b2");
  Names order;
  while (const auto taken = queue.next()) order.push_back(taken->item);
  EXPECT_EQ(order, (Names{"b1", "a2", "c1", "b2"}));
  queue.add("a", "a3");
  EXPECT_EQ(queue.next()->owner, "a") << "an owner that had none left";
}

TEST(OwnersQueue, AnOwnerThatMayNotIsPassedOverAndKeepsItsTurn) {
  OwnersQueue<std::string> queue;
  for (const char* item : {"a1", "b1", "b2", "c1"}) queue.add(owner_of(item), item);
  const auto not_a = [](const std::string& owner, const std::string&) { return owner != "a"; };
  EXPECT_EQ(queue.next(not_a)->item, "b1");
  EXPECT_EQ(queue.next()->item, "a1");
  EXPECT_EQ(queue.next()->item, "c1");
  EXPECT_FALSE(queue.next([](const std::string&, const std::string& item) { return item != "b2"; }));
  EXPECT_EQ(queue.next()->item, "b2");
}

TEST(OwnersQueue, LeadingItemsAreTakenOfEachOwner) {
  OwnersQueue<std::unique_ptr<int>> queue;
  for (const int number : {1, 9, 2}) queue.add("a", std::make_unique<int>(number));
  for (const int number : {3, 4}) queue.add("b", std::make_unique<int>(number));
  queue.add("c", std::make_unique<int>(8));
  const auto small = queue.take_leading([](const std::unique_ptr<int>& item) { return *item < 5; });
  ASSERT_EQ(small.size(), 3u);
  EXPECT_EQ(*queue.next()->item, 9);
  EXPECT_EQ(*queue.next()->item, 8);
  EXPECT_EQ(*queue.next()->item, 2) << "behind one that was not taken";
  EXPECT_FALSE(queue.next());
}

}  // namespace
}  // namespace verbena
