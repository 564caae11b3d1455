// The log on persistent memory, over the model that loses what was not written back.
#include "store/local/pmem_log.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "store/conformance/rig.h"
#include "store/local/test_persistent_memory.h"

namespace verbena::store::local {
namespace {

using conformance::pattern;

constexpr uint64_t log_id = 0x7a6b5c4d3e2f1a40;  // a multiple of 64, without a byte of zeros

struct Log {
  explicit Log(PersistentMemories& memories, uint64_t size = PmemLog::size_min) {
    std::string trouble;
    log = std::make_unique<PmemLog>(std::move(*memories.open("/pmem", size, trouble)));
  }
  std::optional<uint64_t> put(const std::string& key, const std::string& value, uint64_t bucket = 1) {
    return log->append({.bucket = bucket, .key = key, .head = "head of " + key, .bytes = as_bytes(value)});
  }
  std::unique_ptr<PmemLog> log;
};

std::string text_of(const PmemLog::Found& found) {
  return {reinterpret_cast<const char*>(found.bytes.data()), found.bytes.size()};
}

// A log that is made, used by `use`, and read by a start after a power cut.
PmemLog::Contents after(
    ModelMemories& memories, const std::function<void(Log&)>& use, const std::function<void()>& meanwhile = [] {}) {
  {
    Log t(memories);
    EXPECT_TRUE(t.log->format(log_id));
    use(t);
  }
  memories.cut(1);
  meanwhile();
  Log t(memories);
  std::string trouble;
  const auto id = t.log->id(trouble);
  EXPECT_TRUE(id && *id == log_id) << trouble;
  return t.log->recover(log_id);
}

TEST(PmemLog, HasWhatWasAppendedInOrder) {
  ModelMemories memories;
  const std::string large = pattern(PmemLog::bytes_max, 1);
  const auto contents = after(memories, [&](Log& t) {
    ASSERT_TRUE(t.put("a", "one"));
    ASSERT_TRUE(t.put("b", large));
    ASSERT_TRUE(t.put("c", ""));
    EXPECT_FALSE(t.put("d", large + "x")) << "too large";
    EXPECT_FALSE(t.put("", "x")) << "no key";
  });
  ASSERT_EQ(contents.waiting.size(), 3u);
  EXPECT_TRUE(contents.damage.empty());
  EXPECT_EQ(contents.waiting[0].key, "a");
  EXPECT_EQ(contents.waiting[0].head, "head of a");
  EXPECT_EQ(contents.waiting[0].bucket, 1u);
  EXPECT_EQ(text_of(contents.waiting[1]), large);
  EXPECT_EQ(text_of(contents.waiting[2]), "");
}

TEST(PmemLog, BringsBackTheLastOfAKeyAndNothingThatTheIndexHas) {
  ModelMemories memories;
  const auto contents = after(memories, [&](Log& t) {
    const auto first = t.put("first", "1");
    ASSERT_TRUE(t.put("a", "old"));
    ASSERT_TRUE(t.put("a", "of another bucket", 2));
    ASSERT_TRUE(t.put("a", "new"));
    const auto b_old = t.put("b", "old"), b = t.put("b", "new");
    ASSERT_TRUE(b_old && b && first);
    t.log->moved(*b);  // b's old record, which has no mark, must not come back
    EXPECT_FALSE(t.log->empty());
  });
  ASSERT_EQ(contents.waiting.size(), 3u);
  EXPECT_EQ(text_of(contents.waiting[0]), "1");
  EXPECT_EQ(text_of(contents.waiting[1]), "of another bucket");
  EXPECT_EQ(text_of(contents.waiting[2]), "new");
}

TEST(PmemLog, UsesItsSpaceAgainAndRefusesWhenItIsFull) {
  ModelMemories memories;
  const std::string value = pattern(50'000, 3);
  const auto contents = after(memories, [&](Log& t) {
    std::vector<uint64_t> places;
    while (const auto place = t.put("k" + std::to_string(places.size()), value)) places.push_back(*place);
    EXPECT_GE(places.size(), 17u);
    EXPECT_LE(places.size(), 18u);
    EXPECT_FALSE(t.put("more", value));
    const PmemLog::Record record{.bucket = 1, .key = "moves", .head = "head", .bytes = as_bytes(value)};
    const auto moves = t.log->append(record, /*moves=*/true);
    ASSERT_TRUE(moves) << "for those that make room";
    places.push_back(*moves);
    for (const uint64_t place : places) t.log->moved(place);
    EXPECT_TRUE(t.log->empty());
    EXPECT_EQ(t.log->used_bytes(), 0u);
    for (int round = 0; round < 100; ++round) {
      const auto place = t.put("round", value);
      ASSERT_TRUE(place);
      t.log->moved(*place);
    }
    ASSERT_TRUE(t.put("last", value));
  });
  ASSERT_EQ(contents.waiting.size(), 1u);
  EXPECT_EQ(text_of(contents.waiting[0]), value);
}

TEST(PmemLog, ALogIsReadOnlyUnderItsOwnId) {
  ModelMemories memories;
  const auto contents = after(memories, [&](Log& t) {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(t.put("old" + std::to_string(i), "old"));
    ASSERT_TRUE(t.log->format(log_id + cache_line));
    ASSERT_TRUE(t.log->format(log_id));
    EXPECT_TRUE(t.log->empty());
  });
  // The same id again, which no store does: the old records must be seen then, or the rest proves nothing.
  EXPECT_EQ(contents.waiting.size(), 20u);
  Log t(memories);
  ASSERT_TRUE(t.log->format(log_id + cache_line));
  EXPECT_TRUE(t.log->recover(log_id + cache_line).waiting.empty());
}

// --- Damage
// ------------------------------------------------------------------------------------------------------

TEST(PmemLogDamage, AWriteOfAnotherProcessIsFoundWhereverItIs) {
  size_t changes = 0;
  // The records: three lines each, from 4096 on.
  for (uint64_t at = 4096; at < 4096 + 4 * 3 * cache_line; ++at) {
    const uint64_t in_record = (at - 4096) % (3 * cache_line);
    const bool unused = in_record >= 60 && in_record < 64;
    const bool in_head = in_record >= 64 + 2 && in_record < 128;
    const bool in_object = in_head || in_record >= 128;
    const bool padding = (in_record >= 64 + 12 && in_record < 128) || in_record >= 128 + 50;
    if (unused || padding) continue;
    ModelMemories memories;
    const auto contents = after(
        memories,
        [&](Log& t) {
          for (const char* key : {"aa", "bb", "cc", "dd", "ee"}) ASSERT_TRUE(t.put(key, pattern(50, 9)));
        },
        [&] { memories.change(at); });
    EXPECT_EQ(contents.damage.size(), in_object ? 0u : 1u) << at;
    EXPECT_EQ(contents.waiting.size(), in_object ? 5u : 4u) << at << ": the others can be read";
    const auto lost = std::ranges::find_if(contents.waiting, &PmemLog::Found::lost);
    EXPECT_EQ(lost != contents.waiting.end(), in_object) << at;
    if (in_object) {
      const std::string key(2, static_cast<char>('a' + (at - 4096) / (3 * cache_line)));
      EXPECT_EQ(lost->key, key) << at;
      EXPECT_EQ(lost->head, in_head ? "" : "head of " + key) << at;
      EXPECT_EQ(lost->size, 50u) << at;
      EXPECT_TRUE(lost->bytes.empty()) << at;
    }
    ++changes;
  }
  EXPECT_GT(changes, 400u);
}

TEST(PmemLogDamage, APoisonedLineIsAnErrorOfItsRecordAlone) {
  for (uint64_t line = 0; line < 9; ++line) {  // also of the last record, behind which none is
    ModelMemories memories;
    const auto contents = after(
        memories,
        [&](Log& t) {
          for (const char* key : {"aa", "bb", "cc"}) ASSERT_TRUE(t.put(key, pattern(50, 9)));
        },
        [&] { memories.poison(4096 + line * cache_line); });
    const bool of_bytes = line % 3 == 2;  // the key's line has the head, too
    ASSERT_EQ(contents.damage.size(), of_bytes ? 0u : 1u) << line;
    ASSERT_EQ(contents.waiting.size(), of_bytes ? 3u : 2u) << line;
    if (of_bytes) {
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(contents.waiting[i].lost, i == line / 3) << line;
      continue;
    }
    EXPECT_EQ(contents.waiting[0].key, line < 3 ? "bb" : "aa");
    EXPECT_EQ(contents.waiting[1].key, line < 6 ? "cc" : "bb");
    EXPECT_TRUE(contents.damage[0].ends_with("Of which key it was is not known")) << contents.damage[0];
  }
}

// No processor does it. Of a number that was stored in part the record does not count.
TEST(PmemLogDamage, ATornPublicationIsARecordThatWasNeverFinished) {
  for (size_t stored = 0; stored < 8; ++stored) {
    ModelMemories memories;
    const auto contents = after(
        memories,
        [&](Log& t) {
          for (const char* key : {"aa", "bb"}) ASSERT_TRUE(t.put(key, pattern(50, 9)));
        },
        [&] { memories.tear(4096 + 3 * cache_line, stored); });
    EXPECT_TRUE(contents.damage.empty()) << stored;
    ASSERT_EQ(contents.waiting.size(), 1u) << stored;
    EXPECT_EQ(contents.waiting[0].key, "aa");
  }
}

TEST(PmemLogDamage, APoisonedLineUnderAWriteEndsTheAppendsAndNothingElse) {
  ModelMemories memories;
  Log t(memories);
  ASSERT_TRUE(t.log->format(log_id));
  const auto place = t.put("a", "value");
  memories.poison(4096 + 4 * cache_line);
  EXPECT_FALSE(t.put("b", pattern(1000, 1)));
  EXPECT_TRUE(t.log->failed());
  EXPECT_FALSE(t.put("c", "value"));
  t.log->moved(*place);
  EXPECT_TRUE(t.log->empty());
}

TEST(PmemLogDamage, ADamagedBeginningAndAShrunkNamespaceAreRefused) {
  for (const uint64_t at : {0, 8, 16, 24, 64}) {
    ModelMemories memories;
    {
      Log(memories).log->format(log_id).value();
    }
    memories.change(at);
    Log t(memories);
    std::string trouble;
    const auto id = t.log->id(trouble);
    if (at == 64) {
      EXPECT_TRUE(t.log->recover(log_id).unusable);
    } else {
      EXPECT_FALSE(id);
      EXPECT_NE(trouble, "");
    }
  }
  ModelMemories memories;
  {
    Log(memories, 2 * PmemLog::size_min).log->format(log_id).value();
  }
  memories.shrink(PmemLog::size_min);
  {
    std::string trouble;
    EXPECT_FALSE(Log(memories).log->id(trouble));
    EXPECT_NE(trouble.find("shrunk"), std::string::npos) << trouble;
  }
  memories.shrink(1000);
  std::string trouble;
  EXPECT_FALSE(Log(memories).log->id(trouble));
  EXPECT_NE(trouble, "");
}

// --- Power cuts
// --------------------------------------------------------------------------------------------------

// A log in use, cut at random calls of the memory, again and again. It counts what a start found and should not have,
// or the other way round.
class Cuts {
 public:
  // `wrap`: what stands between the log and the model.
  using Wrap = std::function<std::unique_ptr<PersistentMemory>(std::unique_ptr<PersistentMemory>)>;
  explicit Cuts(uint64_t seed, Wrap wrap = {}) : random_(seed), wrap_(std::move(wrap)) {
    open();
    EXPECT_TRUE(log_->format(log_id));
    close();
  }

  void round() {
    open();
    read();
    memories_.cut_at(random_() % 120);
    while (!memories_.was_cut()) change();
    close();
    memories_.cut(random_());
    ++cuts_;
  }
  size_t cuts() const { return cuts_; }
  size_t wrong() const { return wrong_; }
  size_t found() const { return found_; }

 private:
  struct Key {
    std::optional<uint64_t> place;                  // in the log, not in the index
    std::set<std::optional<std::string>> possible;  // what a start may find; nullopt: nothing
  };

  void open() {
    std::string trouble;
    auto memory = std::move(*memories_.open("/pmem", PmemLog::size_min, trouble));
    if (wrap_) memory = wrap_(std::move(memory));
    log_ = std::make_unique<PmemLog>(std::move(memory));
  }
  void close() { log_.reset(); }

  void read() {
    std::string trouble;
    const auto id = log_->id(trouble);
    if (!id || *id != log_id) ++wrong_;
    const auto contents = log_->recover(log_id);
    if (!contents.damage.empty()) ++wrong_;
    std::map<std::string, std::pair<uint64_t, std::string>> there;
    uint64_t last = 0;
    for (const auto& found : contents.waiting) {
      if (found.lost || found.head != "head of " + found.key || found.place + 1 <= last) ++wrong_;
      last = found.place + 1;
      there[found.key] = {found.place, text_of(found)};
    }
    found_ += there.size();
    for (auto& [name, key] : keys_) {
      const auto it = there.find(name);
      const auto value = it == there.end() ? std::nullopt : std::optional(it->second.second);
      if (!key.possible.contains(value)) ++wrong_;
      key.possible = {value};
      key.place = value ? std::optional(it->second.first) : std::nullopt;
      there.erase(name);
    }
    if (!there.empty()) ++wrong_;
    log_->free_what_is_over();
  }

  void change() {
    const std::string name = "key" + std::to_string(random_() % 12);
    Key& key = keys_[name];
    if (key.possible.empty()) key.possible = {std::nullopt};
    if (random_() % 3 != 0) return put(name, key);
    if (key.place) move(key);
  }

  void put(const std::string& name, Key& key) {
    const uint64_t kind = random_() % 16;
    const size_t size = 8 + (kind == 0 ? random_() % (PmemLog::bytes_max - 7) : random_() % (kind < 4 ? 5000 : 200));
    const std::string value = pattern(size, random_());
    const auto before = key.place;
    key.possible.insert(value);
    const auto place = log_->append({.bucket = 1, .key = name, .head = "head of " + name, .bytes = as_bytes(value)});
    if (!place) {  // full: the oldest go to the index
      key.possible.erase(value);
      for (auto& [other, one] : keys_) {
        if (one.place && !memories_.was_cut()) move(one);
      }
      return;
    }
    key.place = place;
    if (memories_.was_cut()) return;
    key.possible = {value};
    if (before) log_->replaced(*before);
  }

  // The index has it.
  void move(Key& key) {
    key.possible.insert(std::nullopt);
    log_->moved(*key.place);
    key.place.reset();
    if (!memories_.was_cut()) key.possible = {std::nullopt};
  }

  ModelMemories memories_;
  std::mt19937_64 random_;
  const Wrap wrap_;
  std::unique_ptr<PmemLog> log_;
  std::map<std::string, Key> keys_;
  size_t cuts_ = 0, wrong_ = 0, found_ = 0;
};

TEST(PmemLogCuts, WhatWasAcknowledgedIsThereAfterThousandsOfPowerCuts) {
  size_t cuts = 0, found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cuts log(seed);
    for (int i = 0; i < 100; ++i) log.round();
    EXPECT_EQ(log.wrong(), 0u) << "seed " << seed;
    cuts += log.cuts();
    found += log.found();
  }
  std::printf("%zu power cuts, %zu records found after them\n", cuts, found);
  EXPECT_EQ(cuts, 2000u);
  EXPECT_GT(found, cuts);
}

// Leaves out one kind of call: the log would be wrong without it, and the cuts must find that.
class Forgetful final : public PersistentMemory {
 public:
  enum class What : uint8_t { flushes, fences };
  Forgetful(std::unique_ptr<PersistentMemory> under, What what) : under_(std::move(under)), what_(what) {}
  const PmemPlace& place() const override { return under_->place(); }
  uint64_t size() const override { return under_->size(); }
  bool load(MutableBytes into, uint64_t offset) const override { return under_->load(into, offset); }
  bool store(uint64_t offset, Bytes bytes) override { return under_->store(offset, bytes); }
  bool store_number(uint64_t offset, uint64_t number) override { return under_->store_number(offset, number); }
  bool flush(uint64_t offset, uint64_t length) override {
    return what_ == What::flushes || under_->flush(offset, length);
  }
  void fence() override {
    if (what_ != What::fences) under_->fence();
  }

 private:
  const std::unique_ptr<PersistentMemory> under_;
  const What what_;
};

TEST(PmemLogCuts, FindALogThatForgetsToFlushOrToFence) {
  for (const auto what : {Forgetful::What::flushes, Forgetful::What::fences}) {
    Cuts log(1, [what](auto memory) { return std::make_unique<Forgetful>(std::move(memory), what); });
    for (int i = 0; i < 20; ++i) log.round();
    EXPECT_GT(log.wrong(), 0u) << static_cast<int>(what);
  }
}

}  // namespace
}  // namespace verbena::store::local
