// Appends and renames.
#include <rapidcheck.h>

#include <map>

#include "store/conformance/engines.h"
#include "store/logic/append_layout.h"

namespace verbena::store::conformance {
namespace {

class Appends : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }

  static ObjectInfo info_of(std::string_view bytes) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = Rig::etag_of(bytes);
    Digest digest(Algorithm::crc32c);
    digest.update(as_bytes(bytes));
    info.checksums = {{Algorithm::crc32c, digest.finish(), 0}};
    return info;
  }

  Result<ObjectInfo> append(const std::string& key, std::string_view bytes, std::optional<uint64_t> offset = {},
                            size_t chunk_size = 1 * MiB) {
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", key, bytes.size())));
    VB_TRY(t.append(*writer, bytes, chunk_size));
    CommitConditions conditions;
    conditions.if_size = offset;
    return t.run(writer->commit(info_of(bytes), conditions));
  }

  Task<Result<ObjectInfo>> append_task(std::string key, std::string bytes, std::optional<uint64_t> offset = {}) {
    VB_CO_ASSIGN(auto writer, co_await t.engine().create_append("b", key, bytes.size()));
    VB_CO_TRY(co_await writer->append(t.chunk(bytes)));
    CommitConditions conditions;
    conditions.if_size = offset;
    co_return co_await writer->commit(info_of(bytes), conditions);
  }

  // With a known size, so that no volume reserves more.
  Result<ObjectInfo> put(const std::string& key, const std::string& bytes) {
    return t.put("b", key, bytes, {.conditions = {}, .chunk_size = 1 * MiB, .size_hint = bytes.size(), .etag = {}});
  }

  Result<ObjectInfo> rename(const std::string& from, const std::string& to, const std::string& token = "",
                            const std::string& asked = "") {
    RenameRequest request{.from = from, .to = to};
    request.token = token;
    request.asked = asked;
    return t.run(t.engine().rename("b", std::move(request)));
  }

  void expect(const std::string& key, std::string_view bytes) {
    auto got = t.get("b", key);
    ASSERT_TRUE(got) << key << ": " << describe(got.error());
    ASSERT_EQ(got->size(), bytes.size()) << key;
    ASSERT_TRUE(*got == bytes) << key;
  }
};

TEST_P(Appends, AddToTheEndAndMakeTheObject) {
  auto made = append("log", "one ", 0);
  ASSERT_TRUE(made) << describe(made.error());
  EXPECT_EQ(made->size, 4u);
  auto more = append("log", "two", 4);
  ASSERT_TRUE(more) << describe(more.error());
  EXPECT_EQ(more->size, 7u);
  EXPECT_NE(more->etag, made->etag);
  expect("log", "one two");
  t.reopen();
  if (!t.get("b", "log")) GTEST_SKIP() << "an engine that keeps nothing";
  expect("log", "one two");
  t.expect_no_leak();
}

TEST_P(Appends, AWrongOffsetChangesNothing) {
  EXPECT_EQ(append("log", "x", 1).error(), Errc::invalid_write_offset) << "no object has size 0";
  ASSERT_TRUE(append("log", "abc", 0));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{2}, uint64_t{4}, UINT64_MAX}) {
    EXPECT_EQ(append("log", "x", offset).error(), Errc::invalid_write_offset);
    EXPECT_EQ(append("log", pattern(300'000, 1), offset).error(), Errc::invalid_write_offset) << "written as it came";
  }
  expect("log", "abc");
  t.expect_no_leak();
}

TEST_P(Appends, GoOnBehindObjectsOfEveryKind) {
  const std::string small = pattern(100, 1), large = pattern(2 * MiB + 5, 2), tail = pattern(70'000, 3);
  ASSERT_TRUE(put("empty", ""));
  ASSERT_TRUE(put("small", small));
  ASSERT_TRUE(put("large", large));
  auto upload = t.start_upload("b", "parts");
  ASSERT_TRUE(upload);
  auto one = t.put_part(*upload, 1, large), two = t.put_part(*upload, 7, small);
  ASSERT_TRUE(t.complete(*upload, {*one, *two}));
  for (const std::string& added : {small, tail, large}) {
    for (const auto& [key, before] : {std::pair(std::string("empty"), std::string()),
                                      {"small", small},
                                      {"large", large},
                                      {"parts", large + small}}) {
      auto whole = t.get("b", key);
      ASSERT_TRUE(whole);
      ASSERT_TRUE(whole->starts_with(before));
      auto appended = append(key, added, whole->size(), 100'000);
      ASSERT_TRUE(appended) << key << describe(appended.error());
      expect(key, *whole + added);
    }
  }
  t.expect_no_leak();
  for (const char* key : {"empty", "small", "large", "parts"}) ASSERT_TRUE(t.remove("b", key));
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
  EXPECT_EQ(t.arena().leased_bytes(), 0u);
}

TEST_P(Appends, AReaderKeepsWhatItOpened) {
  std::string all = pattern(40'000, 9);
  ASSERT_TRUE(put("log", all));
  auto before = t.run(t.engine().open("b", "log"));
  ASSERT_TRUE(before);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(append("log", pattern(3'000, static_cast<uint64_t>(i))));
  EXPECT_EQ((*before)->info().size, all.size());
  auto bytes = t.read(**before, 0, all.size());
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(*bytes == all);
}

TEST_P(Appends, ManySmallOnesMakeFewParts) {
  std::string all;
  for (int i = 0; i < 3'000; ++i) {
    const std::string record = pattern(200, static_cast<uint64_t>(i));
    auto stored = append("log", record, all.size());
    ASSERT_TRUE(stored) << describe(stored.error());
    all += record;
  }
  auto info = t.run(t.engine().stat("b", "log"));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, all.size());
  EXPECT_LE(info->parts.size(), 3 * fan_in) << "600,000 bytes";
  expect("log", all);
  t.expect_no_leak();
  t.reopen();
  if (t.get("b", "log")) expect("log", all);
}

// Parts of an upload are not merged, so only they and large appends ever reach this number.
TEST_P(Appends, EndAtTenThousandParts) {
  // The logic is the same for all engines; the others take long to put so many parts.
  if (std::string_view(GetParam().name) != "Local") GTEST_SKIP() << "one engine does";
  const std::string large = pattern(300'000, 1);  // written as it arrives
  const auto upload = t.start_upload("b", "log");
  ASSERT_TRUE(upload);
  std::vector<PartInfo> parts;
  for (int number = 1; number < part_number_max; ++number) {
    auto part = t.put_part(*upload, number, "x");
    ASSERT_TRUE(part) << describe(part.error());
    parts.push_back(*part);
  }
  ASSERT_TRUE(t.complete(*upload, parts));
  ASSERT_TRUE(append("log", "y", 9'999)) << "the ten thousandth";
  ASSERT_TRUE(append("log", "z", 10'000)) << "goes into that one";
  EXPECT_EQ(append("log", large, 10'001).error(), Errc::too_many_parts);
  const std::string rest = pattern(20'000, 2);  // more than the next append merges
  ASSERT_TRUE(append("log", rest, 10'001));
  EXPECT_EQ(append("log", "!", 30'001).error(), Errc::too_many_parts);
  EXPECT_EQ(append("log", large, 30'001).error(), Errc::too_many_parts);
  EXPECT_TRUE(t.get("b", "log") == std::string(9'999, 'x') + "yz" + rest);
  t.expect_no_leak();
}

TEST_P(Appends, TheChecksumIsThatOfTheWhole) {
  std::string all;
  ObjectInfo last;
  for (const size_t size : {size_t{10}, size_t{300'000}, size_t{1}, size_t{70'000}}) {
    const std::string bytes = pattern(size, size);
    auto stored = append("log", bytes);
    ASSERT_TRUE(stored);
    all += bytes;
    last = *stored;
  }
  Digest digest(Algorithm::crc32c);
  digest.update(as_bytes(all));
  ASSERT_EQ(last.checksums.size(), 1u);
  EXPECT_EQ(last.checksums[0].value, digest.finish());
  EXPECT_EQ(t.run(t.engine().stat("b", "log"))->checksums, last.checksums);
}

TEST_P(Appends, ConditionsHoldForWhatIsThere) {
  CommitConditions if_absent, if_other, if_there;
  if_absent.if_none_match = "*";
  if_other.if_match = "other";
  if_there.if_match = "*";
  const auto conditional = [&](const CommitConditions& conditions) -> Result<ObjectInfo> {
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", "k", 1)));
    VB_TRY(t.append(*writer, "x"));
    return t.run(writer->commit(info_of("x"), conditions));
  };
  EXPECT_EQ(conditional(if_there).error(), Errc::no_such_key);
  ASSERT_TRUE(conditional(if_absent));
  EXPECT_EQ(conditional(if_absent).error(), Errc::precondition_failed);
  EXPECT_EQ(conditional(if_other).error(), Errc::precondition_failed);
  ASSERT_TRUE(conditional(if_there));
  expect("k", "xx");
}

TEST_P(Appends, MakeAnObjectOnlyWhereTheyMay) {
  CommitConditions added_only;
  added_only.may_make_object = false;
  const auto add = [&](std::string_view bytes) -> Result<ObjectInfo> {
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", "k", bytes.size())));
    VB_TRY(t.append(*writer, bytes));
    return t.run(writer->commit(info_of(bytes), added_only));
  };
  const std::string large = pattern(300'000, 1);
  EXPECT_EQ(add("x").error(), Errc::quota_exceeded);
  EXPECT_EQ(add(large).error(), Errc::quota_exceeded);
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  ASSERT_TRUE(append("k", "a"));
  ASSERT_TRUE(add("x"));
  ASSERT_TRUE(add(large));
  expect("k", "ax" + large);
  t.expect_no_leak();
}

TEST_P(Appends, ABucketWithVersionsTakesNone) {
  ASSERT_TRUE(append("log", "x"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  EXPECT_EQ(append("log", "x").error(), Errc::invalid_bucket_state);
  EXPECT_EQ(append("log", pattern(300'000, 1)).error(), Errc::invalid_bucket_state);
  EXPECT_EQ(rename("log", "other").error(), Errc::invalid_bucket_state);
  expect("log", "x");
  t.expect_no_leak();
}

TEST_P(Appends, AnObjectOfAnotherKindIsLeftAlone) {
  ObjectInfo info = info_of("sealed");
  info.attributes = {{"sse", "AES256"}};
  auto writer = t.run(t.engine().create("b", "k", 6));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "sealed"));
  ASSERT_TRUE(t.run((*writer)->commit(info, {})));
  auto more = t.run(t.engine().create_append("b", "k", 1));
  ASSERT_TRUE(t.append(**more, "x"));
  CommitConditions conditions;
  conditions.if_without = "sse";
  EXPECT_EQ(t.run((*more)->commit(info_of("x"), conditions)).error(), Errc::encryption_type_mismatch);
  expect("k", "sealed");
}

TEST_P(Appends, ThoseThatWaitGoTogetherAndEachHasItsPlace) {
  constexpr int count = 200;
  std::vector<std::optional<Result<ObjectInfo>>> done(count);
  for (int i = 0; i < count; ++i) {
    auto note = [&done, i](std::exception_ptr, Result<ObjectInfo> result) { done[static_cast<size_t>(i)] = result; };
    boost::asio::co_spawn(t.io(), append_task("log", fmt::format("{:04}", i)), note);
  }
  const auto all_done = [&] { return std::ranges::all_of(done, [](const auto& one) { return one.has_value(); }); };
  while (!all_done()) {
    t.io().restart();
    t.io().run();
  }
  auto whole = t.get("b", "log");
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->size(), 4u * count);
  for (int i = 0; i < count; ++i) {
    const auto& one = *done[static_cast<size_t>(i)];
    ASSERT_TRUE(one) << describe(one.error());
    EXPECT_EQ(whole->substr(one->size - 4, 4), fmt::format("{:04}", i)) << "at the position in its answer";
  }
  t.expect_no_leak();
}

TEST_P(Appends, OneThatFailsTakesNoOtherWithIt) {
  ASSERT_TRUE(append("log", "ab", 0));
  std::vector<Result<ObjectInfo>> done;
  const auto spawn = [&](std::optional<uint64_t> offset) {
    boost::asio::co_spawn(t.io(), append_task("log", "x", offset),
                          [&done](std::exception_ptr, Result<ObjectInfo> result) { done.push_back(result); });
  };
  spawn(2);
  spawn(99);
  spawn(3);
  spawn({});
  while (done.size() < 4) {
    t.io().restart();
    t.io().run();
  }
  EXPECT_EQ(std::ranges::count_if(done, [](const auto& one) { return one.has_value(); }), 3);
  expect("log", "abxxx");
}

TEST_P(Appends, SurviveAPowerLossOnceAcknowledged) {
  std::string all;
  for (uint64_t round = 0; round < 6; ++round) {
    for (uint64_t i = 0; i < 40; ++i) {
      const std::string record = pattern(round % 2 == 0 ? 900 : 20'000, i);
      auto stored = append("log", record, all.size());
      ASSERT_TRUE(stored) << describe(stored.error());
      all += record;
    }
    t.crash(round);
    if (!t.get("b", "log")) GTEST_SKIP() << "an engine that keeps nothing";
    expect("log", all);
  }
  t.expect_no_leak();
}

TEST_P(Appends, RenameMovesTheObjectAndNothingElse) {
  const std::string bytes = pattern(100'000, 4);
  auto stored = put("a", bytes);
  ASSERT_TRUE(stored);
  ASSERT_TRUE(put("z", pattern(50'000, 5)));
  const uint64_t live = t.live_bytes();
  auto moved = rename("a", "z");
  ASSERT_TRUE(moved) << describe(moved.error());
  EXPECT_EQ(moved->etag, stored->etag);
  EXPECT_EQ(moved->modified_us, stored->modified_us);
  EXPECT_EQ(t.get("b", "a").error(), Errc::no_such_key);
  expect("z", bytes);
  t.expect_no_leak();
  EXPECT_LT(t.live_bytes(), live) << "what was at the target is gone";
  EXPECT_EQ(rename("a", "z").error(), Errc::no_such_key);
  ASSERT_TRUE(rename("z", "z")) << "onto itself";
  expect("z", bytes);
}

TEST_P(Appends, RenameTakesPartsAlong) {
  auto upload = t.start_upload("b", "a");
  auto one = t.put_part(*upload, 1, pattern(100'000, 1)), two = t.put_part(*upload, 2, pattern(10, 2));
  ASSERT_TRUE(t.complete(*upload, {*one, *two}));
  ASSERT_TRUE(rename("a", "c"));
  ASSERT_TRUE(append("c", "tail"));
  expect("c", pattern(100'000, 1) + pattern(10, 2) + "tail");
  ASSERT_TRUE(rename("c", "a"));
  expect("a", pattern(100'000, 1) + pattern(10, 2) + "tail");
  t.expect_no_leak();
  ASSERT_TRUE(t.remove("b", "a"));
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
}

TEST_P(Appends, ARenameThatComesAgainIsNotDoneAgain) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(rename("a", "c", "token", "a to c"));
  ASSERT_TRUE(rename("a", "c", "token", "a to c")) << "the source is gone, as it should";
  ASSERT_TRUE(put("a", "2"));
  ASSERT_TRUE(rename("a", "c", "token", "a to c"));
  expect("c", "1");
  EXPECT_EQ(rename("a", "d", "token", "a to d").error(), Errc::idempotency_mismatch);
  ASSERT_TRUE(rename("a", "c", "other", "a to c"));
  expect("c", "2");
  ASSERT_TRUE(t.remove("b", "c"));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b"))) << "tokens are no objects";
  t.make_bucket("b");
  EXPECT_EQ(rename("a", "c", "token", "a to c").error(), Errc::no_such_key) << "another bucket";
}

TEST_P(Appends, TokensOfRenamesAreForgotten) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(rename("a", "c", "old", "a to c"));
  for (int i = 0; i < 4'000; ++i) t.clock().now_us();  // a second each
  ASSERT_TRUE(rename("c", "a", "new", "c to a"));
  ASSERT_TRUE(rename("a", "d", "old", "a to d")) << "requests are not repeated after an hour";
  expect("d", "1");
}

TEST_P(Appends, ARenameSaysNoAsItsJudgeDoes) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(put("c", "22"));
  RenameRequest request{.from = "a", .to = "c"};
  request.judge = [](ObjectInfo& source, const ObjectInfo* target) -> Result<void> {
    if (source.size == 1 && target != nullptr && target->size == 2) return fail(Errc::precondition_failed, "judge");
    return {};
  };
  EXPECT_EQ(t.run(t.engine().rename("b", request)).error(), Errc::precondition_failed);
  expect("a", "1");
  expect("c", "22");
  request.to = "d";
  ASSERT_TRUE(t.run(t.engine().rename("b", request)));
  expect("d", "1");
}

TEST_P(Appends, RandomHistoriesAgreeWithAMap) {
  std::map<std::string, std::string> model;
  std::mt19937_64 random(20'261'122);
  const std::vector<std::string> names = {"a", "b", "c", std::string("\0x", 2)};
  const std::vector<size_t> sizes = {1, 199, 4'000, 16'384, 65'537, 300'000};
  for (int i = 0; i < 400; ++i) {
    const std::string& key = names[random() % names.size()];
    const std::string& other = names[random() % names.size()];
    const std::string bytes = pattern(sizes[random() % sizes.size()], random());
    switch (random() % 6) {
      case 0:
        ASSERT_TRUE(put(key, bytes));
        model[key] = bytes;
        break;
      case 1:
        ASSERT_TRUE(t.remove("b", key));
        model.erase(key);
        break;
      case 2: {
        const bool there = model.contains(key);
        auto moved = rename(key, other, random() % 2 == 0 ? std::to_string(i) : "", "x");
        ASSERT_EQ(moved.has_value(), there);
        if (there && key != other) {
          model[other] = model[key];
          model.erase(key);
        }
        break;
      }
      default:
        if (model[key].size() + bytes.size() > 4 * MiB) break;
        auto stored = append(key, bytes, model[key].size(), 90'000);
        ASSERT_TRUE(stored) << describe(stored.error());
        model[key] += bytes;
    }
    std::erase_if(model, [](const auto& one) { return one.second.empty(); });
    if (i % 50 == 0) {
      for (const auto& [name, value] : model) expect(name, value);
      t.expect_no_leak();
    }
  }
  for (const auto& [name, value] : model) expect(name, value);
  auto page = t.list("b");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->entries.size(), model.size());
}

ON_ALL_ENGINES(Appends);

TEST(AppendLayout, TakesAShortTailAndEightOfASize) {
  const auto parts = [](std::initializer_list<uint64_t> sizes) {
    std::vector<StoredPart> made;
    for (const uint64_t size : sizes) {
      StoredPart part;
      part.info.size = size;
      part.blob = {BlobKind::extents, 1, size};
      made.push_back(part);
    }
    return made;
  };
  EXPECT_EQ(parts_to_absorb({}, 100), 0u);
  EXPECT_EQ(parts_to_absorb(parts({100}), 100), 1u);
  EXPECT_EQ(parts_to_absorb(parts({tail_size - 100}), 100), 1u);
  EXPECT_EQ(parts_to_absorb(parts({tail_size - 99}), 100), 0u) << "it is long enough";
  EXPECT_EQ(parts_to_absorb(parts({tail_size, 100}), 100), 1u);
  const auto six = {settled_size, tail_size, tail_size, tail_size, tail_size, tail_size, tail_size};
  const auto seven = {tail_size, tail_size, tail_size, tail_size, tail_size, tail_size, tail_size};
  const auto seven_and_a_tail = {tail_size, tail_size, tail_size, tail_size,
                                 tail_size, tail_size, tail_size, uint64_t{100}};
  EXPECT_EQ(parts_to_absorb(parts(six), 100), 0u) << "six are not eight";
  EXPECT_EQ(parts_to_absorb(parts(seven), 100), 7u);
  EXPECT_EQ(parts_to_absorb(parts(seven_and_a_tail), 100), 1u) << "not before the tail is full";
  EXPECT_EQ(parts_to_absorb(parts(seven_and_a_tail), tail_size), 8u);
  EXPECT_EQ(parts_to_absorb(parts({100}), tail_size), 1u) << "a short tail goes with whatever comes";
  EXPECT_EQ(parts_to_absorb(parts({100}), settled_size), 1u);
  auto uploaded = parts({100});
  uploaded[0].info.etag = "of an upload";
  EXPECT_EQ(parts_to_absorb(uploaded, 100), 0u);
}

}  // namespace
}  // namespace verbena::store::conformance
