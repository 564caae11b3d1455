#include "cache/hot_tier.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <thread>

namespace verbena::cache {
namespace {

class Sized final : public Entry {
 public:
  explicit Sized(size_t held_bytes, int value = 0) : value(value), held_bytes_(held_bytes) {}
  size_t held_bytes() const override { return held_bytes_; }
  const int value;

 private:
  const size_t held_bytes_;
};

EntryPtr entry(size_t held_bytes, int value = 0) { return std::make_shared<Sized>(held_bytes, value); }
int value(const EntryPtr& e) { return e == nullptr ? -1 : static_cast<const Sized&>(*e).value; }

void put(HotTier& tier, const std::string& name, size_t held_bytes, int v = 0) {
  const Key key{"b", name};
  tier.insert(tier.fill_token(key), key, entry(held_bytes, v));
}

TEST(HotTier, WhatWasPutIsFoundUnderItsOwnNameOnly) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  put(*tier, "k", 100, 1);
  EXPECT_EQ(value(tier->find({"b", "k"})), 1);
  EXPECT_EQ(value(tier->find({"b", "k2"})), -1);
  EXPECT_EQ(value(tier->find({"bk", ""})), -1);
  EXPECT_EQ(value(tier->find({"", "bk"})), -1);
  put(*tier, "k", 200, 2);
  EXPECT_EQ(value(tier->find({"b", "k"})), 2);
  EXPECT_EQ(tier->bytes(), 200u);
  EXPECT_EQ(tier->entries(), 1u);
}

TEST(HotTier, TheCapacityHoldsWhateverComes) {
  auto tier = HotTier::create({.capacity = 100'000});
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    put(*tier, std::to_string(random() % 500), 1 + random() % 5'000);
    if (i % 3 == 0) (void)tier->find({"b", std::to_string(random() % 500)});
    EXPECT_LE(tier->bytes(), 100'000u);
  }
  EXPECT_GT(tier->bytes(), 80'000u);
  put(*tier, "too large", 100'001);
  EXPECT_EQ(tier->find({"b", "too large"}), nullptr);
}

TEST(HotTier, AScanDoesNotWashOutWhatIsHot) {
  auto tier = HotTier::create({.capacity = 1000 * 100});
  const auto hot = [](int i) { return "hot" + std::to_string(i); };
  for (int i = 0; i < 300; ++i) put(*tier, hot(i), 100);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 300; ++i) (void)tier->find({"b", hot(i)});
  }
  for (int i = 0; i < 20'000; ++i) put(*tier, "scan" + std::to_string(i), 100);
  int kept = 0;
  for (int i = 0; i < 300; ++i) kept += tier->find({"b", hot(i)}) != nullptr ? 1 : 0;
  EXPECT_EQ(kept, 300);
}

// Where all were used, one eviction went over all of them, while look-ups waited for the shard's lock.
TEST(HotTier, AnEvictionPassesOverSoManyUsedEntriesAndNoMore) {
  constexpr int count = 16 * 600;
  auto tier = HotTier::create({.capacity = count * 10});
  for (int i = 0; i < count; ++i) put(*tier, std::to_string(i), 10);
  for (int i = 0; i < count; ++i) ASSERT_NE(tier->find({"b", std::to_string(i)}), nullptr);
  ASSERT_EQ(tier->shed(10), 10u);
  for (int i = 0; i < count; ++i) {
    // Not the oldest of its shard, which it is after a turn over all.
    if (tier->find({"b", std::to_string(i)}) == nullptr) {
      EXPECT_GE(i, 256);
    }
  }
  EXPECT_EQ(tier->entries(), static_cast<size_t>(count - 1));
}

TEST(HotTier, WhoComesBackAfterAnEvictionStays) {
  auto tier = HotTier::create({.capacity = 1600 * 10});
  put(*tier, "again", 10);
  for (int i = 0; i < 3'000; ++i) put(*tier, "fill" + std::to_string(i), 10);
  ASSERT_EQ(tier->find({"b", "again"}), nullptr);
  // It was evicted recently enough to be remembered: it enters the main queue at once and survives the next scan.
  for (int i = 0; i < 1'600; ++i) put(*tier, "more" + std::to_string(i), 10);
  put(*tier, "more1", 10);
  for (int i = 0; i < 1'000; ++i) put(*tier, "scan" + std::to_string(i), 10);
  EXPECT_NE(tier->find({"b", "more1"}), nullptr);
}

TEST(HotTier, AChangeDropsTheEntryAtOnceAndKeepsTheNewOne) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  put(*tier, "k", 100, 1);
  {
    auto change = tier->change({"b", "k"});
    EXPECT_EQ(tier->find({"b", "k"}), nullptr);
    put(*tier, "k", 100, 7);  // read by an earlier reader from the old object
    EXPECT_EQ(tier->find({"b", "k"}), nullptr);
    change.publish(entry(100, 2));
  }
  EXPECT_EQ(value(tier->find({"b", "k"})), 2);
  {
    auto failed = tier->change({"b", "k"});
  }
  EXPECT_EQ(tier->find({"b", "k"}), nullptr);
  EXPECT_EQ(tier->bytes(), 0u);
}

TEST(HotTier, WhatWasReadBeforeAChangeDoesNotComeInAfterIt) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Key key{"b", "k"};
  const auto before = tier->fill_token(key);
  {
    auto change = tier->change(key);
  }
  tier->insert(before, key, entry(100, 1));
  EXPECT_EQ(tier->find(key), nullptr);
  auto change = tier->change(key);
  const auto during = tier->fill_token(key);
  change.publish(nullptr);
  tier->insert(during, key, entry(100, 2));
  EXPECT_EQ(tier->find(key), nullptr);
  tier->insert(tier->fill_token(key), key, entry(100, 3));
  EXPECT_EQ(value(tier->find(key)), 3);
}

TEST(HotTier, RemovalsOfManyKeysDropTheirEntriesAndKeepOutWhatWasReadBefore) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const std::vector<std::string_view> names{"k1", "k2", "absent"};
  for (const auto name : {"k1", "k2", "other"}) put(*tier, name, 100, 1);
  const auto before = tier->fill_token({"b", "k1"});
  {
    const auto removals = tier->removals("b", names);
    for (const auto name : names) EXPECT_EQ(tier->find({"b", name}), nullptr);
    tier->insert(before, {"b", "k1"}, entry(100, 2));
    put(*tier, "k2", 100, 2);
    for (const auto name : names) EXPECT_EQ(tier->find({"b", name}), nullptr);
  }
  tier->insert(before, {"b", "k1"}, entry(100, 2));
  EXPECT_EQ(tier->find({"b", "k1"}), nullptr);
  EXPECT_EQ(value(tier->find({"b", "other"})), 1);
  put(*tier, "k2", 100, 3);
  EXPECT_EQ(value(tier->find({"b", "k2"})), 3);
}

// The engine may have made the removal after the change.
TEST(HotTier, AChangeDuringARemovalIsNotKept) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const std::vector<std::string_view> names{"k"};
  std::optional<HotTier::Removals> removals(tier->removals("b", names));
  auto change = tier->change({"b", "k"});
  removals.reset();
  change.publish(entry(100, 1));
  EXPECT_EQ(tier->find({"b", "k"}), nullptr);
}

TEST(HotTier, OfTwoChangesAtOnceNeitherIsKept) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Key key{"b", "k"};
  for (bool first_ends_first : {true, false}) {
    auto a = tier->change(key);
    auto b = tier->change(key);
    auto& first = first_ends_first ? a : b;
    auto& second = first_ends_first ? b : a;
    first.publish(entry(100, 1));
    EXPECT_EQ(tier->find(key), nullptr);
    second.publish(entry(100, 2));
    EXPECT_EQ(tier->find(key), nullptr);
  }
}

TEST(HotTier, NothingFromBeforeItWasForgottenComesIn) {
  for (const bool all : {false, true}) {
    auto tier = HotTier::create({.capacity = 1 * MiB});
    const Key read{"b", "read"}, changed{"b", "changed"}, there{"b", "there"};
    const auto token = tier->fill_token(read);
    auto change = tier->change(changed);
    put(*tier, "there", 100);
    all ? tier->forget_all() : tier->forget("b");
    EXPECT_EQ(tier->find(there), nullptr);
    tier->insert(token, read, entry(100));
    EXPECT_EQ(tier->find(read), nullptr);
    change.publish(entry(100));
    EXPECT_EQ(tier->find(changed), nullptr);
    put(*tier, "read", 100, 3);
    EXPECT_EQ(value(tier->find(read)), 3);
    put(*tier, "there", 100, 4);
    EXPECT_EQ(value(tier->find(there)), 4);
    EXPECT_EQ(tier->bytes(), 200u) << "what was forgotten is replaced";
  }
}

TEST(HotTier, ForgetsOneBucketAndLeavesTheOthers) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Key other{"other", "key"};
  tier->insert(tier->fill_token(other), other, entry(100, 7));
  put(*tier, "key", 100, 1);
  tier->forget("b");
  EXPECT_EQ(tier->find({"b", "key"}), nullptr);
  EXPECT_EQ(value(tier->find(other)), 7);
  HotTier::Lookup both[] = {{.key = {"b", "key"}}, {.key = other}};
  tier->find_many(both);
  EXPECT_EQ(both[0].found, nullptr);
  EXPECT_EQ(value(both[1].found), 7);
}

TEST(HotTier, WhatWasForgottenMakesRoomFirst) {
  auto tier = HotTier::create({.capacity = 16'000});
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    put(*tier, name, 100);
    for (int use = 0; use < 3; ++use) EXPECT_NE(tier->find({"b", name}), nullptr);
  }
  tier->forget("b");
  const Key kept{"other", "key"};
  tier->insert(tier->fill_token(kept), kept, entry(100, 7));
  const size_t all = tier->bytes();
  EXPECT_GE(tier->shed(all - 200), all - 200);
  EXPECT_LE(tier->bytes(), 200u);
}

TEST(HotTier, ShedGivesBackWhatIsAsked) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  for (int i = 0; i < 100; ++i) put(*tier, std::to_string(i), 1000);
  EXPECT_GE(tier->shed(5'500), 5'500u);
  EXPECT_LE(tier->bytes(), 94'500u);
  EXPECT_GT(tier->bytes(), 90'000u);
  EXPECT_EQ(tier->shed(1 * MiB), 94'000u);
  EXPECT_EQ(tier->shed(1), 0u);
}

TEST(HotTier, NobodyHoldsAllThatIsOnItsWayIn) {
  auto tier = HotTier::create({.capacity = 4000});
  const int one = 0, other = 0;
  HotTier::Fill a(tier), b(tier), c(tier), d(tier);
  EXPECT_TRUE(a.add(300, &one));
  EXPECT_TRUE(b.add(200, &one));
  EXPECT_FALSE(c.add(1, &one));
  c.release();
  EXPECT_TRUE(d.add(300, &other));
  HotTier::Fill moved(std::move(a));
  moved.release();
  EXPECT_TRUE(c.add(300, &one));
  EXPECT_TRUE(b.add(0, &one));
  b.release();
  d.release();
  c.release();
  EXPECT_TRUE(a.add(1) == false) << "moved from";
  EXPECT_TRUE(d.add(500, &other));
}

TEST(HotTier, WhatIsOnItsWayInIsBounded) {
  auto tier = HotTier::create({.capacity = 4000});
  HotTier::Fill a(tier), b(tier);
  EXPECT_TRUE(a.add(600));
  EXPECT_FALSE(b.add(500));
  EXPECT_TRUE(b.add(400));
  EXPECT_FALSE(a.add(1));
  a.release();
  EXPECT_TRUE(b.add(600));
}

// Threads change and read few keys; a reader never sees a value that was replaced before its call.
TEST(HotTier, ReadersNeverGoBack) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  constexpr int keys = 4, rounds = 20'000;
  std::array<std::atomic<int>, keys> current{};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 1; i <= rounds; ++i) {
      const int k = i % keys;
      const std::string name = std::to_string(k);
      auto change = tier->change({"b", name});
      current[static_cast<size_t>(k)] = i;  // the engine's commit
      change.publish(i % 3 == 0 ? nullptr : entry(10, i));
    }
    stop = true;
  });
  std::thread reader([&] {
    for (int i = 0; !stop; ++i) {
      const int k = i % keys;
      const std::string name = std::to_string(k);
      const Key key{"b", name};
      const int at_least = current[static_cast<size_t>(k)];
      if (auto found = tier->find(key)) {
        EXPECT_GE(value(found), at_least);
      } else {
        const auto token = tier->fill_token(key);
        const int seen = current[static_cast<size_t>(k)];
        std::this_thread::yield();
        tier->insert(token, key, entry(10, seen));
      }
    }
  });
  writer.join();
  reader.join();
}

}  // namespace
}  // namespace verbena::cache
