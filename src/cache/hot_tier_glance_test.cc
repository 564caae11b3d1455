// Look-ups of many names that hold nothing.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <thread>

#include "cache/hot_tier.h"

namespace verbena::cache {
namespace {

class Numbered final : public Entry {
 public:
  explicit Numbered(int number) : number(number) {}
  size_t held_bytes() const override { return 10; }
  Label label() const override { return {static_cast<uint64_t>(number), 7}; }
  const int number;
};

class Numbers final : public HotTier::Visitor {
 public:
  void visit(std::span<const HotTier::Shown> shown) override {
    EXPECT_FALSE(shown.empty());
    for (const HotTier::Shown& one : shown) {
      const int number = static_cast<const Numbered&>(*one.node->entry).number;
      EXPECT_EQ(one.node->label.first, static_cast<uint64_t>(number));
      EXPECT_EQ(one.node->label.second, 7u);
      EXPECT_TRUE(seen.emplace(one.index, number).second) << "shown twice";
    }
  }
  std::map<size_t, int> seen;
};

// Names of one length, which share a prefix.
struct Names {
  Names(std::string_view prefix, size_t size, int from, int count) : size(size), shared(prefix.size()) {
    for (int i = from; i < from + count; ++i) {
      std::string name(prefix);
      name += std::to_string(i);
      text += name + std::string(size - name.size(), '.');
    }
  }
  KeyRun run(std::string_view bucket = "b") const { return {bucket, text.data(), size, text.size() / size, shared}; }
  std::string text;
  const size_t size, shared;
};

void put_number(HotTier& tier, std::string_view bucket, std::string_view name, int number) {
  const Key key{bucket, name};
  tier.insert(tier.fill_token(key), key, std::make_shared<Numbered>(number));
}

TEST(HotTierGlance, ShowsWhatFindWouldReturn) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  for (const char* prefix : {"", "p", "of-eight", "a prefix longer than two words"}) {
    for (const size_t more : {3, 8, 33}) {
      const Names names(prefix, std::string_view(prefix).size() + more, 0, 100);
      const KeyRun run = names.run();
      for (size_t i = 0; i < run.count; i += 3) put_number(*tier, "b", run.at(i), static_cast<int>(i));
      Numbers numbers;
      tier->glance(run, numbers);
      ASSERT_EQ(numbers.seen.size(), 34u) << prefix << more;
      for (const auto& [index, number] : numbers.seen) EXPECT_EQ(static_cast<int>(index), number);
      Numbers elsewhere;
      tier->glance(names.run("c"), elsewhere);
      EXPECT_TRUE(elsewhere.seen.empty());
      tier->forget("b");
      Numbers forgotten;
      tier->glance(run, forgotten);
      EXPECT_TRUE(forgotten.seen.empty());
    }
  }
}

TEST(HotTierGlance, ARunMayBeEmptyOrFull) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Names names("x", 20, 0, KeyRun::count_max);
  KeyRun run = names.run();
  for (size_t i = 0; i < run.count; ++i) put_number(*tier, "b", run.at(i), static_cast<int>(i));
  Numbers numbers;
  tier->glance(run, numbers);
  EXPECT_EQ(numbers.seen.size(), KeyRun::count_max);
  run.count = 0;
  Numbers none;
  tier->glance(run, none);
  EXPECT_TRUE(none.seen.empty());
}

TEST(HotTierGlance, CountsAsUse) {
  auto tier = HotTier::create({.capacity = 1600 * 10});
  const Names names("kept", 20, 0, 50);
  const KeyRun run = names.run();
  for (size_t i = 0; i < run.count; ++i) put_number(*tier, "b", run.at(i), static_cast<int>(i));
  Numbers once, after;
  tier->glance(run, once);
  for (int i = 0; i < 3'000; ++i) put_number(*tier, "b", "scan" + std::to_string(i), i);
  tier->glance(run, after);
  EXPECT_EQ(after.seen.size(), 50u);
}

// A glance locks two shards at a time, and another one begins with other names.
TEST(HotTierGlance, SeveralAtOnceDoNotWaitForEachOtherForEver) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Names all("key", 20, 0, 120), few("key", 20, 57, 6);
  for (size_t i = 0; i < 120; ++i) put_number(*tier, "b", all.run().at(i), static_cast<int>(i));
  const auto ask = [&](const Names& names) {
    for (int i = 0; i < 3'000; ++i) {
      Numbers numbers;
      tier->glance(names.run(), numbers);
      ASSERT_EQ(numbers.seen.size(), names.run().count);
    }
  };
  std::thread other(ask, std::cref(few));
  ask(all);
  other.join();
}

TEST(HotTierGlance, AnAnswerIsNeverOlderThanTheQuestionWhileKeysChange) {
  auto tier = HotTier::create({.capacity = 1 * MiB});
  const Names names("key", 40, 0, 100);
  const KeyRun run = names.run();
  std::array<std::atomic<int>, 100> current{};
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 1; i < 20'000; ++i) {
      const auto k = static_cast<size_t>(i) % run.count;
      auto change = tier->change({"b", run.at(k)});
      current[k] = i;
      change.publish(i % 3 == 0 ? nullptr : std::make_shared<Numbered>(i));
    }
    stop = true;
  });
  while (!stop) {
    std::array<int, 100> before{};
    for (size_t k = 0; k < before.size(); ++k) before[k] = current[k];
    Numbers numbers;
    tier->glance(run, numbers);
    for (const auto& [index, number] : numbers.seen) EXPECT_GE(number, before[index]);
  }
  writer.join();
}

}  // namespace
}  // namespace verbena::cache
