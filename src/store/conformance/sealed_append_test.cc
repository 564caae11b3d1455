// Appends to encrypted objects, with keys made by a test.
#include <map>
#include <set>
#include <tuple>

#include "store/append_seal.h"
#include "store/conformance/engines.h"
#include "store/logic/append_layout.h"

namespace verbena::store::conformance {
namespace {

// Stores an object's key beside it and digests the list: checks that need no secret keys.
class TestSeal final : public AppendSeal {
 public:
  explicit TestSeal(memory::Arena& arena, std::string kind = "kind") : arena_(arena), kind_(std::move(kind)) {
    const Secret key = Secret::random(object_key_size);
    fresh_ = {{"sse", kind_}, {"key", std::string(key.text())}};
  }
  Result<void> check(const Attributes& object) const override {
    const std::string* kind = find_attribute(object, "sse");
    if (kind != nullptr && *kind == kind_) return {};
    return fail(Errc::encryption_type_mismatch, "test");
  }
  const Attributes& fresh() const override { return fresh_; }
  Result<Secret> object_key(const Attributes& object) const override {
    const std::string* key = find_attribute(object, "key");
    if (key == nullptr) return fail(Errc::corrupt_object, "test: key");
    return Secret(as_bytes(*key));
  }
  Result<void> verify(const Attributes& object, std::span<const NumberedPart> parts) const override {
    const std::string* list = find_attribute(object, "list");
    if (list != nullptr && *list == digest(parts)) return {};
    return fail(Errc::corrupt_object, "test: list");
  }
  Attributes manifest(std::span<const NumberedPart> parts) const override { return {{"list", digest(parts)}}; }
  memory::Arena& arena() const override { return arena_; }

  static std::string digest(std::span<const NumberedPart> parts) {
    std::string text;
    for (const NumberedPart& one : parts) {
      text += std::to_string(one.number) + ":" + std::to_string(one.part.size) + ":" + to_hex(one.part.salt) + ";";
    }
    return text;
  }

 private:
  memory::Arena& arena_;
  const std::string kind_;
  Attributes fresh_;
};

class SealedAppends : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }

  AppendSealPtr seal(const std::string& kind = "kind") { return std::make_shared<TestSeal>(t.arena(), kind); }

  static ObjectInfo info_of(std::string_view bytes) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = Rig::etag_of(bytes);
    return info;
  }
  Result<ObjectInfo> append(const std::string& key, std::string_view bytes, std::optional<uint64_t> offset = {},
                            AppendSealPtr by = {}, size_t chunk_size = 1 * MiB) {
    if (by == nullptr) by = seal();
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", key, bytes.size(), by)));
    VB_TRY(t.append(*writer, bytes, chunk_size));
    CommitConditions conditions;
    conditions.if_size = offset;
    return t.run(writer->commit(info_of(bytes), conditions));
  }
  Result<ObjectInfo> plain_append(const std::string& key, std::string_view bytes) {
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", key, bytes.size())));
    VB_TRY(t.append(*writer, bytes));
    CommitConditions conditions;
    conditions.if_without = "sse";
    return t.run(writer->commit(info_of(bytes), conditions));
  }
  Task<Result<ObjectInfo>> append_task(std::string key, std::string bytes, AppendSealPtr by) {
    VB_CO_ASSIGN(auto writer, co_await t.engine().create_append("b", key, bytes.size(), by));
    VB_CO_TRY(co_await writer->append(t.chunk(bytes)));
    CommitConditions none;
    co_return co_await writer->commit(info_of(bytes), std::move(none));
  }
  // Makes all at once; returns how many succeeded.
  int together(const std::vector<std::tuple<std::string, std::string, AppendSealPtr>>& all) {
    std::vector<Result<ObjectInfo>> done;
    for (const auto& [key, bytes, by] : all) {
      auto note = [&done](std::exception_ptr, Result<ObjectInfo> result) { done.push_back(std::move(result)); };
      boost::asio::co_spawn(t.io(), append_task(key, bytes, by), note);
    }
    while (done.size() < all.size()) {
      t.io().restart();
      t.io().run();
    }
    return static_cast<int>(std::ranges::count_if(done, [](const auto& one) { return one.has_value(); }));
  }

  // Its plain bytes, after its list of parts was verified.
  Result<std::string> get(const std::string& key) {
    VB_ASSIGN(auto reader, t.run(t.engine().open("b", key)));
    const TestSeal opening(t.arena());
    const Attributes& object = reader->info().attributes;
    VB_ASSIGN(const auto parts, numbered_parts(reader->info()));
    VB_TRY(opening.verify(object, parts));
    VB_ASSIGN(const Secret object_key, opening.object_key(object));
    std::vector<SealedPart> sealed;
    for (const NumberedPart& one : parts) sealed.push_back(one.part);
    VB_ASSIGN(auto opened, make_opening_reader(std::move(reader), t.arena(), object_key, std::move(sealed), key));
    return t.read(*opened, 0, opened->info().size);
  }
  void expect(const std::string& key, std::string_view bytes) {
    auto got = get(key);
    ASSERT_TRUE(got) << key << ": " << describe(got.error());
    ASSERT_EQ(got->size(), bytes.size()) << key;
    ASSERT_TRUE(*got == bytes) << key;
  }
};

TEST_P(SealedAppends, MakeTheObjectAndAddToIt) {
  std::string all;
  for (const size_t size : {size_t{1}, size_t{200}, size_t{65'536}, size_t{300'000}, size_t{17}, size_t{2 * MiB + 3}}) {
    const std::string bytes = pattern(size, size);
    auto stored = append("log", bytes, all.size(), {}, 100'000);
    ASSERT_TRUE(stored) << size << describe(stored.error());
    all += bytes;
    EXPECT_EQ(stored->size, all.size());
    expect("log", all);
  }
  auto raw = t.get("b", "log");
  ASSERT_TRUE(raw);
  EXPECT_EQ(raw->find(all.substr(201, 64)), std::string::npos) << "plain bytes are kept";
  t.reopen();
  if (t.run(t.engine().stat("b", "log"))) expect("log", all);
  t.expect_no_leak();
  ASSERT_TRUE(t.remove("b", "log"));
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
  EXPECT_EQ(t.arena().leased_bytes(), 0u);
}

TEST_P(SealedAppends, ManySmallOnesMakeFewParts) {
  std::string all;
  for (int i = 0; i < 1'500; ++i) {
    const std::string record = pattern(200, static_cast<uint64_t>(i));
    auto stored = append("log", record, all.size());
    ASSERT_TRUE(stored) << describe(stored.error());
    all += record;
  }
  auto info = t.run(t.engine().stat("b", "log"));
  ASSERT_TRUE(info);
  EXPECT_LE(info->parts.size(), 3 * fan_in) << "300,000 bytes";
  expect("log", all);
  t.expect_no_leak();
}

TEST_P(SealedAppends, NoTwoPartsLieUnderOneSalt) {
  std::set<std::string> salts;
  size_t parts = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(append("log", pattern(20'000, static_cast<uint64_t>(i))));
    auto info = t.run(t.engine().stat("b", "log"));
    for (const PartInfo& one : info->parts) salts.insert(*find_attribute(one.attributes, salt_attribute));
    parts = info->parts.size();
    std::set<std::string> now;
    for (const PartInfo& one : info->parts) now.insert(*find_attribute(one.attributes, salt_attribute));
    ASSERT_EQ(now.size(), parts);
    EXPECT_EQ(find_attribute(info->attributes, salt_attribute) == nullptr, parts != 0) << "its parts have them";
  }
  EXPECT_GT(salts.size(), 10u);
}

TEST_P(SealedAppends, ThoseThatWaitGoTogether) {
  std::vector<std::tuple<std::string, std::string, AppendSealPtr>> all;
  for (int i = 0; i < 200; ++i) all.emplace_back("log", pattern(300, static_cast<uint64_t>(i)), seal());
  EXPECT_EQ(together(all), 200);
  auto got = get("log");
  ASSERT_TRUE(got) << describe(got.error());
  EXPECT_EQ(got->size(), 60'000u);
  for (const auto& one : all) EXPECT_NE(got->find(std::get<1>(one)), std::string::npos);
  t.expect_no_leak();
}

TEST_P(SealedAppends, ThoseOfAnotherKindTakeNoOtherWithThem) {
  ASSERT_TRUE(append("log", "ab", 0));
  EXPECT_EQ(
      together({{"log", "x", seal()}, {"log", "y", seal("another")}, {"log", "z", nullptr}, {"log", "v", seal()}}), 2);
  auto got = get("log");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size(), 4u);
}

TEST_P(SealedAppends, WhatIsOfAnotherKindIsLeftAlone) {
  const std::string large = pattern(300'000, 1);
  ASSERT_TRUE(append("sealed", "bytes", 0));
  ASSERT_TRUE(plain_append("plain", "bytes"));
  for (const std::string& bytes : {std::string("x"), large}) {
    EXPECT_EQ(plain_append("sealed", bytes).error(), Errc::encryption_type_mismatch);
    EXPECT_EQ(append("plain", bytes).error(), Errc::encryption_type_mismatch);
    EXPECT_EQ(append("sealed", bytes, {}, seal("another")).error(), Errc::encryption_type_mismatch);
    EXPECT_EQ(append("sealed", bytes, 4).error(), Errc::invalid_write_offset);
  }
  expect("sealed", "bytes");
  EXPECT_EQ(*t.get("b", "plain"), "bytes");
  t.expect_no_leak();
}

// Many bytes are sealed as they arrive, for the object that existed at the begin.
TEST_P(SealedAppends, BytesThatWereSealedForAnotherObjectAreRefused) {
  const std::string large = pattern(300'000, 1);
  for (const bool there : {true, false}) {
    if (there) {
      ASSERT_TRUE(append("log", "before", 0));
    }
    auto writer = t.run(t.engine().create_append("b", "log", large.size(), seal()));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, large));
    if (there) {
      ASSERT_TRUE(t.remove("b", "log"));
    }
    ASSERT_TRUE(append("log", "beside", 0)) << "of the same size, under another key";
    EXPECT_EQ(t.run((*writer)->commit(info_of(large), {})).error(), Errc::conditional_conflict);
    writer->reset();  // its bytes may exist as long as it does
    expect("log", "beside");
    ASSERT_TRUE(t.remove("b", "log"));
    t.expect_no_leak();
  }
  EXPECT_EQ(t.live_bytes(), 0u);
}

TEST_P(SealedAppends, LargeOnesThatMeetKeepBoth) {
  ASSERT_TRUE(append("log", "start", 0));
  const std::string large = pattern(300'000, 1), other = pattern(400'000, 2);
  auto first = t.run(t.engine().create_append("b", "log", large.size(), seal()));
  auto second = t.run(t.engine().create_append("b", "log", other.size(), seal()));
  ASSERT_TRUE(t.append(**first, large, 70'000));
  ASSERT_TRUE(t.append(**second, other, 70'000));
  ASSERT_TRUE(append("log", "small"));
  ASSERT_TRUE(t.run((*second)->commit(info_of(other), {})));
  ASSERT_TRUE(t.run((*first)->commit(info_of(large), {})));
  expect("log", "startsmall" + other + large);
  t.expect_no_leak();
}

TEST_P(SealedAppends, AListThatIsNotTheOneItWasGivenIsNotBlessed) {
  ASSERT_TRUE(append("log", pattern(30'000, 1), 0));
  ASSERT_TRUE(append("log", pattern(30'000, 2)));
  ObjectChange change;
  change.attributes = {{"list", "somebody else's"}};
  ASSERT_TRUE(t.run(t.engine().update("b", "log", "", change)));
  EXPECT_EQ(append("log", "x").error(), Errc::corrupt_object);
  EXPECT_EQ(append("log", pattern(300'000, 3)).error(), Errc::corrupt_object);
  EXPECT_EQ(get("log").error(), Errc::corrupt_object) << "as it was before";
  t.expect_no_leak();
}

TEST_P(SealedAppends, SurviveAPowerLossOnceAcknowledged) {
  std::string all;
  for (uint64_t round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 25; ++i) {
      const std::string record = pattern(round % 2 == 0 ? 900 : 20'000, i);
      auto stored = append("log", record, all.size());
      ASSERT_TRUE(stored) << describe(stored.error());
      all += record;
    }
    t.crash(round);
    if (!t.run(t.engine().stat("b", "log"))) GTEST_SKIP() << "an engine that keeps nothing";
    expect("log", all);
  }
  t.expect_no_leak();
}

TEST_P(SealedAppends, RandomHistoriesAgreeWithAMap) {
  std::map<std::string, std::string> model;
  std::mt19937_64 random(20'261'123);
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::vector<size_t> sizes = {1, 199, 4'000, 16'384, 65'536, 65'537, 300'000};
  for (int i = 0; i < 250; ++i) {
    const std::string& key = names[random() % names.size()];
    const std::string& other = names[random() % names.size()];
    const std::string bytes = pattern(sizes[random() % sizes.size()], random());
    const uint64_t what = random() % 8;
    if (what == 0) {
      ASSERT_TRUE(t.remove("b", key));
      model.erase(key);
    } else if (what == 1) {
      auto moved = t.run(t.engine().rename("b", {.from = key, .to = other}));
      ASSERT_EQ(moved.has_value(), model.contains(key));
      if (model.contains(key) && key != other) {
        model[other] = model[key];
        model.erase(key);
      }
    } else if (model[key].size() + bytes.size() <= 3 * MiB) {
      auto stored = append(key, bytes, model[key].size(), {}, 90'000);
      ASSERT_TRUE(stored) << describe(stored.error());
      model[key] += bytes;
    }
    std::erase_if(model, [](const auto& one) { return one.second.empty(); });
    if (i % 50 != 0) continue;
    for (const auto& [name, value] : model) expect(name, value);
    t.expect_no_leak();
  }
  for (const auto& [name, value] : model) expect(name, value);
}

ON_ALL_ENGINES(SealedAppends);

}  // namespace
}  // namespace verbena::store::conformance
