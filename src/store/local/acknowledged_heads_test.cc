// Acknowledged objects in the order of keys, as of moments.
#include "store/local/acknowledged_heads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "store/empty_cursor.h"
#include "store/local/write_behind.h"
#include "store/logic/keys.h"

namespace verbena::store::local {
namespace {

class AcknowledgedHeadsTest : public testing::Test {
 protected:
  AcknowledgedPtr make(const std::string& key, uint64_t sequence, uint64_t bucket = 1) {
    auto object = std::make_shared<Acknowledged>();
    object->bucket = bucket == 1 ? one_ : two_;
    object->key = key;
    object->sequence = sequence;
    return object;
  }
  static std::shared_ptr<const Bucket> bucket_of(uint64_t id) {
    auto bucket = std::make_shared<Bucket>();
    bucket->id = id;
    return bucket;
  }
  // Key and sequence of everything, read in pieces.
  static std::map<std::string, uint64_t> all(const AcknowledgedHeads::AsOf& moment, size_t piece) {
    std::map<std::string, uint64_t> found;
    std::string from;
    for (;;) {
      const auto some = moment.first(from, piece);
      for (const auto& object : some) EXPECT_TRUE(found.emplace(object->key, object->sequence).second);
      if (some.size() < piece) return found;
      from = some.back()->key + std::string(1, '\0');
    }
  }

  const std::shared_ptr<const Bucket> one_ = bucket_of(1), two_ = bucket_of(2);
  const std::shared_ptr<AcknowledgedHeads> heads_ = std::make_shared<AcknowledgedHeads>();
};

TEST_F(AcknowledgedHeadsTest, AMomentStaysAsItWasHoweverKeysChange) {
  struct Taken {
    std::shared_ptr<const AcknowledgedHeads::AsOf> moment;
    std::map<std::string, uint64_t> wanted;
  };
  std::mt19937 random(42);
  std::map<std::string, AcknowledgedPtr> current;
  std::vector<Taken> taken;
  const auto name = [&] { return "k" + std::to_string(random() % 40); };
  for (uint64_t step = 1; step < 20'000; ++step) {
    const std::string key = name();
    if (random() % 3 != 0) {
      current[key] = make(key, step);
      heads_->set(current[key]);
    } else if (const auto found = current.find(key); found != current.end()) {
      heads_->erase(*found->second);
      current.erase(found);
    }
    if (step % 5 == 0) heads_->set(make(key, step, 2));  // of another bucket
    if (random() % 10 == 0) {
      Taken now{.moment = heads_->now(1), .wanted = {}};
      for (const auto& [its, object] : current) now.wanted.emplace(its, object->sequence);
      taken.push_back(std::move(now));
    }
    if (taken.size() < 1 + random() % 8) continue;
    const size_t at = random() % taken.size();
    ASSERT_EQ(all(*taken[at].moment, 1 + random() % 50), taken[at].wanted);
    const std::string asked = name();
    const auto object = taken[at].moment->find(asked);
    const auto wanted = taken[at].wanted.find(asked);
    ASSERT_EQ(object == nullptr, wanted == taken[at].wanted.end());
    if (object != nullptr) {
      ASSERT_EQ(object->sequence, wanted->second);
    }
    taken.erase(taken.begin() + static_cast<ptrdiff_t>(at));
  }
  EXPECT_LT(heads_->kept(), 40u * 8) << "what only ended moments had is gone";
  taken.clear();
  EXPECT_EQ(heads_->kept(), 0u);
}

TEST_F(AcknowledgedHeadsTest, WhatAMomentDoesNotHaveIsNotKeptForIt) {
  const auto before = heads_->now(1);
  for (uint64_t i = 1; i <= 100; ++i) heads_->set(make("k", i));
  EXPECT_EQ(heads_->kept(), 0u);
  std::weak_ptr<const Acknowledged> newest;
  {
    const auto object = make("k", 101);
    newest = object;
    heads_->set(object);
    const auto now = heads_->now(1);
    heads_->erase(*object);
    EXPECT_EQ(now->find("k")->sequence, 101u);
    EXPECT_EQ(heads_->kept(), 1u);
  }
  EXPECT_TRUE(newest.expired());
  EXPECT_EQ(before->find("k"), nullptr);
}

// A page once walked everything that waits, of all buckets.
TEST_F(AcknowledgedHeadsTest, APagePassesWhatItShowsHoweverManyWait) {
  constexpr int count = 100'000;
  char key[16];
  for (int i = 0; i < count; ++i) {
    std::snprintf(key, sizeof key, "d%03d/%06d", i % 100, i);
    heads_->set(make(key, static_cast<uint64_t>(i) + 1, 1 + i % 2));
  }
  const auto moment = heads_->now(1);
  for (int i = 0; i < count; i += 100) {  // what comes after the moment is passed by, not shown
    std::snprintf(key, sizeof key, "d%03d/%06d+", i % 100, i);
    heads_->set(make(key, count + 1, 1));
  }
  const uint64_t before = heads_->passed();
  const auto page = moment->first("d042/", 10);
  ASSERT_EQ(page.size(), 10u);
  EXPECT_EQ(page.front()->key, "d042/000042");
  EXPECT_EQ(page.back()->key, "d042/000942");
  EXPECT_LE(heads_->passed() - before, 10u);
  EXPECT_EQ(moment->first("d0", 2'000).size(), 2'000u);
  EXPECT_LE(heads_->passed() - before, 10u + 2'000 + 1'000);
}

// A view without rows.
class NoRows final : public Moment {
 public:
  Result<std::string> get(Table, std::string_view) override { return fail(Errc::not_found, "test"); }
  std::unique_ptr<store::Cursor> cursor(Table, std::string, std::string_view) override {
    return std::make_unique<EmptyCursor>();
  }
};

// As a listing with a delimiter does: it seeks behind each folder.
TEST_F(AcknowledgedHeadsTest, ACursorThatSeeksPassesAFewEachTime) {
  char key[16];
  for (int i = 0; i < 20'000; ++i) {
    std::snprintf(key, sizeof key, "d%03d/%06d", i % 100, i);
    heads_->set(make(key, static_cast<uint64_t>(i) + 1));
  }
  const auto rows = with_acknowledged(std::make_unique<NoRows>(), heads_->now(1));
  const auto cursor = rows->cursor(Table::objects, keys::object(1, "d"), {});
  const uint64_t before = heads_->passed();
  int folders = 0;
  while (cursor->valid()) {
    const std::string folder(cursor->key().substr(0, keys::object_prefix_size + 5));
    EXPECT_EQ(folder, keys::object(1, "d" + std::to_string(1000 + folders++).substr(1) + "/"));
    cursor->seek(folder.substr(0, folder.size() - 1) + "0");
  }
  EXPECT_EQ(folders, 100);
  EXPECT_LE(heads_->passed() - before, 500u);
  EXPECT_FALSE(rows->cursor(Table::objects, keys::object(1, "e"), {})->valid());
  EXPECT_FALSE(rows->cursor(Table::objects, keys::object_prefix(2), {})->valid());
  EXPECT_TRUE(rows->get(Table::objects, keys::object(1, "d007/000007")));
  EXPECT_FALSE(rows->get(Table::objects, keys::object(2, "d007/000007")));
}

TEST_F(AcknowledgedHeadsTest, ManyThreadsMayReadWhileObjectsComeAndGo) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t i = 1; i < 20'000; ++i) {
      const auto object = make("k" + std::to_string(i % 10), i);
      heads_->set(object);
      if (i % 3 == 0) heads_->erase(*object);
    }
    stop = true;
  });
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto moment = heads_->now(1);
        const auto first = all(*moment, 3);
        EXPECT_EQ(all(*moment, 64), first);
      }
    });
  }
  writer.join();
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(heads_->kept(), 0u);
}

// A listing keeps a view of the row while it asks whether the object has ended.
TEST_F(AcknowledgedHeadsTest, ACursorsRowStaysAtItsPlaceUntilTheCursorMoves) {
  heads_->set(make("a", 1));
  heads_->set(make("b", 2));
  const auto rows = with_acknowledged(std::make_unique<NoRows>(), heads_->now(1));
  const auto cursor = rows->cursor(Table::objects, keys::object_prefix(1), {});
  for (const char* const key : {"a", "b"}) {
    ASSERT_TRUE(cursor->valid());
    EXPECT_EQ(cursor->key(), keys::object(1, key));
    const std::string_view row = cursor->value();
    EXPECT_FALSE(row.empty());
    EXPECT_EQ(cursor->value().data(), row.data());
    cursor->next();
  }
  EXPECT_FALSE(cursor->valid());
}

}  // namespace
}  // namespace verbena::store::local
