// Versions, delete markers, tags and locks.
#include "store/conformance/engines.h"

#include "store/logic/versions.h"

namespace verbena::store::conformance {
namespace {

class VersionStore : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  std::string put(const std::string& bytes, const std::string& key = "k") {
    auto stored = t.put("b", key, bytes);
    EXPECT_TRUE(stored) << describe(stored.error());
    return stored ? stored->version_id : "";
  }
  // "id-or-null:size" of each, newest first; '*' the latest, '!' a delete marker.
  std::vector<std::string> history(const std::string& key = "k") {
    std::vector<std::string> all;
    const auto listed =
        t.all_versions("b", {.prefix = key, .delimiter = {}, .key_marker = {}, .version_id_marker = {}});
    EXPECT_TRUE(listed);
    for (const auto& entry : *listed) {
      if (entry.key != key) continue;
      const auto& info = entry.info;
      all.push_back((entry.latest ? "*" : "") + std::string(info.delete_marker ? "!" : "") + info.version_id);
    }
    return all;
  }
  using List = std::vector<std::string>;
};

TEST_P(VersionStore, AnIdIsFoundAgainAndIsNotGuessable) {
  for (uint64_t id : {0ul, 1ul, 0x0000020000000007ul, UINT64_MAX}) {
    std::string text = make_version_id(id);
    EXPECT_EQ(text.size(), 32u);
    EXPECT_EQ(parse_version_id(text), id);
    EXPECT_NE(make_version_id(id), text);
  }
  EXPECT_FALSE(parse_version_id(""));
  EXPECT_FALSE(parse_version_id("null"));
  EXPECT_FALSE(parse_version_id(std::string(32, 'z')));
  EXPECT_FALSE(parse_version_id(std::string(33, '0')));
}

TEST_P(VersionStore, WithoutVersioningNothingHasAVersion) {
  EXPECT_EQ(put("one"), "");
  EXPECT_EQ(t.run(t.engine().bucket("b"))->versioning, Versioning::off);
  EXPECT_EQ(*t.get_version("b", "k", "null"), "one");
  auto removed = t.remove("b", "k");
  ASSERT_TRUE(removed);
  EXPECT_FALSE(removed->delete_marker);
  EXPECT_EQ(history(), List{});
}

TEST_P(VersionStore, AMarkerThatHidesNothingIsMadeOnlyWhereThereMayBeOneMore) {
  const auto remove = [&](const std::string& key) {
    RemoveRequest request;
    request.may_add_marker = false;
    return t.run(t.engine().remove("b", key, std::move(request)));
  };
  EXPECT_TRUE(remove("none")) << "no marker without versioning";
  put("null", "old");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  put("one");
  for (const char* key : {"k", "old"}) {
    const auto removed = remove(key);
    ASSERT_TRUE(removed) << key;
    EXPECT_TRUE(removed->delete_marker);
    EXPECT_EQ(remove(key).error(), Errc::quota_exceeded) << "there is a marker, and nothing to hide";
  }
  EXPECT_EQ(remove("none").error(), Errc::quota_exceeded);
  EXPECT_EQ(history("none"), List{});
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  EXPECT_TRUE(remove("old")) << "takes the place of the null version";
  EXPECT_EQ(remove("k").error(), Errc::quota_exceeded);
  EXPECT_EQ(remove("none").error(), Errc::quota_exceeded);
}

TEST_P(VersionStore, EveryVersionCanBeReadUntilItIsRemoved) {
  std::string null = put("before");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string large = pattern(200'000, 1);
  std::string one = put("one"), two = put(large), three = put("three");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(history(), (List{"*" + three, two, one, "null"}));
    EXPECT_EQ(*t.get("b", "k"), "three");
    EXPECT_EQ(*t.get_version("b", "k", "null"), "before");
    EXPECT_EQ(*t.get_version("b", "k", one), "one");
    EXPECT_TRUE(*t.get_version("b", "k", two) == large);
    EXPECT_EQ(*t.get_version("b", "k", three), "three");
    EXPECT_EQ(t.get_version("b", "other", three).error(), Errc::no_such_version);
    EXPECT_EQ(t.get_version("b", "k", make_version_id(*parse_version_id(three))).error(), Errc::no_such_version);
    EXPECT_EQ(t.get_version("b", "k", "x").error(), Errc::invalid_version);
    t.reopen();
  }
  // Removing the newest makes the one before it current again.
  auto removed = t.remove_version("b", "k", three);
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->version_id, three);
  EXPECT_TRUE(*t.get("b", "k") == large);
  EXPECT_EQ(history(), (List{"*" + two, one, "null"}));
  // Removes one in the middle.
  ASSERT_TRUE(t.remove_version("b", "k", one));
  ASSERT_TRUE(t.remove_version("b", "k", one));
  EXPECT_EQ(t.get_version("b", "k", one).error(), Errc::no_such_version);
  ASSERT_TRUE(t.remove_version("b", "k", two));
  EXPECT_EQ(*t.get("b", "k"), "before");
  EXPECT_EQ(history(), List{"*null"});
  EXPECT_EQ(t.run(t.engine().remove_bucket("b")).error(), Errc::bucket_not_empty);
  ASSERT_TRUE(t.remove_version("b", "k", "null"));
  t.expect_no_leak();
  EXPECT_TRUE(t.run(t.engine().remove_bucket("b")));
}

TEST_P(VersionStore, ADeleteMakesAMarkerAndRemovingTheMarkerBringsTheObjectBack) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string one = put("one");
  auto first = t.remove("b", "k"), second = t.remove("b", "k");
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->delete_marker && second->delete_marker);
  EXPECT_EQ(history(), (List{"*!" + second->version_id, "!" + first->version_id, one}));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t.run(t.engine().stat("b", "k")).error(), Errc::no_such_key);
  EXPECT_EQ(t.get_version("b", "k", first->version_id).error(), Errc::method_not_allowed);
  auto newest = t.run(t.engine().find_version("b", "k", ""));
  ASSERT_TRUE(newest);
  EXPECT_TRUE(newest->delete_marker);
  EXPECT_EQ(newest->version_id, second->version_id);
  EXPECT_EQ(t.run(t.engine().find_version("b", "never", "")).error(), Errc::no_such_key);
  EXPECT_TRUE(t.list("b")->entries.empty());
  EXPECT_EQ(t.run(t.engine().remove_bucket("b")).error(), Errc::bucket_not_empty);

  // Removing an older marker changes nothing. Removing the newest makes the object current again.
  EXPECT_TRUE(t.remove_version("b", "k", first->version_id)->delete_marker);
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_TRUE(t.remove_version("b", "k", second->version_id)->delete_marker);
  EXPECT_EQ(*t.get("b", "k"), "one");
  EXPECT_EQ(t.list("b")->entries.size(), 1u);
  EXPECT_EQ(history(), List{"*" + one});
  // A key that never existed gets a marker, too.
  EXPECT_TRUE(t.remove("b", "ghost")->delete_marker);
}

TEST_P(VersionStore, AMarkerThatIsTheNewestAgainHidesTheKey) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const std::string one = put("one");
  const std::string marker = t.remove("b", "k")->version_id;
  const std::string two = put("two");
  ASSERT_TRUE(t.remove_version("b", "k", two));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t.run(t.engine().stat("b", "k")).error(), Errc::no_such_key);
  EXPECT_TRUE(t.list("b")->entries.empty());
  EXPECT_EQ(history(), (List{"*!" + marker, one}));
}

TEST_P(VersionStore, SuspendedThereIsOneNullVersion) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string one = put("one");
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  EXPECT_EQ(put("two"), "null");
  EXPECT_EQ(put(pattern(100'000, 2)), "null");
  EXPECT_EQ(history(), (List{"*null", one}));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string three = put("three");
  EXPECT_EQ(history(), (List{"*" + three, "null", one}));
  // The null version is replaced, though it is not the newest.
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  auto removed = t.remove("b", "k");
  ASSERT_TRUE(removed);
  EXPECT_TRUE(removed->delete_marker);
  EXPECT_EQ(removed->version_id, "null");
  EXPECT_EQ(history(), (List{"*!null", three, one}));
  EXPECT_EQ(put("four"), "null");
  EXPECT_EQ(history(), (List{"*null", three, one}));
  EXPECT_EQ(t.set_versioning("b", Versioning::off).error(), Errc::invalid_bucket_state);
  t.reopen();
  EXPECT_EQ(t.run(t.engine().bucket("b"))->versioning, Versioning::suspended);
  EXPECT_EQ(*t.get("b", "k"), "four");
  ASSERT_TRUE(t.remove_version("b", "k", "null"));
  EXPECT_EQ(*t.get("b", "k"), "three");
  EXPECT_EQ(t.remove_version("b", "k", "null")->version_id, "null");
  t.expect_no_leak();
}

TEST_P(VersionStore, AnUploadCompletesIntoAVersionWithItsTags) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string one = put("one");
  UploadInfo wanted;
  wanted.bucket = "b";
  wanted.key = "k";
  wanted.tags = {{"color", "blue"}};
  auto upload = t.run(t.engine().create_upload(wanted));
  ASSERT_TRUE(upload);
  EXPECT_EQ(t.run(t.engine().upload("b", "k", upload->upload_id))->tags, wanted.tags);
  auto part = t.put_part(*upload, 1, "part");
  auto done = t.complete(*upload, {*part});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->tags, wanted.tags);
  EXPECT_EQ(history(), (List{"*" + done->version_id, one}));
  std::string three = put("three");
  EXPECT_EQ(*t.get_version("b", "k", done->version_id), "part");
  EXPECT_EQ(t.run(t.engine().stat("b", "k", done->version_id))->parts.size(), 1u);
  ASSERT_TRUE(t.remove_version("b", "k", three));
  EXPECT_EQ(*t.get("b", "k"), "part");
  ASSERT_TRUE(t.remove_version("b", "k", done->version_id));
  t.expect_no_leak();
}

TEST_P(VersionStore, RemovalsKeepTheirConditions) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  auto absent = t.run(t.engine().remove("b", "none", {.version_id = {}, .conditions = {.if_match = "*"}}));
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->delete_marker);  // no object: nothing to mark
  std::string one = put("one");
  auto info = t.run(t.engine().stat("b", "k"));
  const auto attempt = [&](CommitConditions c, const std::string& id = "") {
    auto done = t.run(t.engine().remove("b", "k", {.version_id = id, .conditions = std::move(c)}));
    return done ? Errc::ok : done.error().code;
  };
  const CommitConditions tag{
      .if_match = "x", .if_none_match = {}, .if_modified_s = {}, .if_modified_us = {}, .if_size = {}};
  CommitConditions size, second, microsecond;
  size.if_size = 4;
  second.if_modified_s = 1;
  microsecond.if_modified_us = info->modified_us + 1;
  for (const auto& c : {tag, size, second, microsecond}) {
    EXPECT_EQ(attempt(c), Errc::precondition_failed);
    EXPECT_EQ(attempt(c, one), Errc::precondition_failed);
    EXPECT_EQ(attempt(c, make_version_id(1)), Errc::ok);  // no object
  }
  CommitConditions all{.if_match = info->etag,
                       .if_none_match = {},
                       .if_modified_s = info->modified_us / 1'000'000,
                       .if_modified_us = info->modified_us,
                       .if_size = 3};
  EXPECT_EQ(attempt(all), Errc::ok);
  // The newest version is a delete marker now.
  for (const auto& c : {tag, size, second, microsecond}) EXPECT_EQ(attempt(c), Errc::precondition_failed);
  EXPECT_EQ(attempt(all, one), Errc::ok);
  // A PUT's conditions treat a marker as no object.
  EXPECT_TRUE(t.put("b", "k", "x", {.conditions = {{}, "*"}, .size_hint = {}, .etag = {}}));
}

TEST_P(VersionStore, TagsChangeWithoutTheBytes) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::string bytes = pattern(150'000, 3);
  std::string one = put(bytes), two = put("two");
  uint64_t live = t.live_bytes();
  const Tags tags = {{"a", "1"}, {"b", ""}};
  ObjectChange change;
  change.tags = tags;
  auto changed = t.run(t.engine().update("b", "k", one, change));
  ASSERT_TRUE(changed) << describe(changed.error());
  EXPECT_EQ(changed->version_id, one);
  EXPECT_EQ(t.live_bytes(), live);
  t.reopen();
  EXPECT_EQ(t.run(t.engine().stat("b", "k", one))->tags, tags);
  EXPECT_EQ(t.run(t.engine().stat("b", "k"))->tags, Tags{});
  EXPECT_TRUE(*t.get_version("b", "k", one) == bytes);
  ASSERT_TRUE(t.run(t.engine().update("b", "k", "", change)));
  EXPECT_EQ(t.run(t.engine().stat("b", "k", two))->tags, tags);
  ObjectChange of_one = change;
  of_one.if_modified_us = t.run(t.engine().stat("b", "k", one))->modified_us;
  of_one.if_size = bytes.size();
  EXPECT_TRUE(t.run(t.engine().update("b", "k", one, of_one)));
  EXPECT_EQ(t.run(t.engine().update("b", "k", "", of_one)).error(), Errc::conditional_conflict);
  EXPECT_EQ(t.run(t.engine().update("b", "none", "", change)).error(), Errc::no_such_key);
  EXPECT_EQ(t.run(t.engine().update("b", "k", make_version_id(1), change)).error(), Errc::no_such_version);
  std::string marker = t.remove("b", "k")->version_id;
  EXPECT_EQ(t.run(t.engine().update("b", "k", "", change)).error(), Errc::no_such_key);
  EXPECT_EQ(t.run(t.engine().update("b", "k", marker, change)).error(), Errc::method_not_allowed);
}

class LockStore : public VersionStore {
 protected:
  void SetUp() override {
    VersionStore::SetUp();
    ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
    ASSERT_TRUE(t.run(t.engine().set_lock("b", {.enabled = true})));
  }
  Result<ObjectInfo> retain(const std::string& id, LockMode mode, int64_t until_us, bool bypass = false) {
    ObjectChange change;
    change.retention.emplace(mode, until_us);
    change.bypass_governance = bypass;
    return t.run(t.engine().update("b", "k", id, change));
  }
  Result<ObjectInfo> hold(const std::string& id, bool on) {
    ObjectChange change;
    change.legal_hold = on;
    return t.run(t.engine().update("b", "k", id, change));
  }
  // The test's clock advances by a second with each reading.
  int64_t later(int64_t seconds) { return t.clock().now_us() + seconds * 1'000'000; }
};

TEST_P(LockStore, NeedsVersioningAndKeepsIt) {
  t.make_bucket("plain");
  EXPECT_EQ(t.run(t.engine().set_lock("plain", {.enabled = true})).error(), Errc::invalid_bucket_state);
  EXPECT_EQ(t.set_versioning("b", Versioning::suspended).error(), Errc::invalid_bucket_state);
  EXPECT_EQ(t.run(t.engine().set_lock("b", {})).error(), Errc::invalid_bucket_state);
  ASSERT_TRUE(t.put("plain", "k", "x"));
  ObjectChange change;
  change.legal_hold = true;
  EXPECT_EQ(t.run(t.engine().update("plain", "k", "", change)).error(), Errc::invalid_request);
}

TEST_P(LockStore, ALegalHoldKeepsAVersionAndOnlyThat) {
  std::string one = put("one"), two = put("two");
  ASSERT_TRUE(hold(one, true));
  EXPECT_EQ(t.remove_version("b", "k", one, true).error(), Errc::access_denied);
  EXPECT_TRUE(t.remove("b", "k"));  // a marker does no harm
  EXPECT_TRUE(t.remove_version("b", "k", two));
  t.reopen();
  EXPECT_EQ(t.remove_version("b", "k", one).error(), Errc::access_denied);
  ASSERT_TRUE(hold(one, false));
  EXPECT_TRUE(t.remove_version("b", "k", one));
}

TEST_P(LockStore, GovernanceYieldsToABypassAndComplianceToNothing) {
  std::string governed = put("one"), complied = put("two");
  ASSERT_TRUE(retain(governed, LockMode::governance, later(1000)));
  ASSERT_TRUE(retain(complied, LockMode::compliance, later(1000)));
  EXPECT_EQ(t.remove_version("b", "k", governed).error(), Errc::access_denied);
  EXPECT_EQ(t.remove_version("b", "k", complied, true).error(), Errc::access_denied);
  // Longer is fine; shorter, weaker or none is not.
  EXPECT_TRUE(retain(governed, LockMode::governance, later(2000)));
  EXPECT_TRUE(retain(complied, LockMode::compliance, later(2000)));
  EXPECT_EQ(retain(governed, LockMode::governance, later(10)).error(), Errc::access_denied);
  EXPECT_EQ(retain(governed, LockMode::compliance, later(3000)).error(), Errc::access_denied);
  EXPECT_EQ(retain(governed, LockMode::none, 0).error(), Errc::access_denied);
  EXPECT_EQ(retain(complied, LockMode::compliance, later(10), true).error(), Errc::access_denied);
  EXPECT_EQ(retain(complied, LockMode::governance, later(3000), true).error(), Errc::access_denied);
  EXPECT_EQ(retain(complied, LockMode::none, 0, true).error(), Errc::access_denied);
  EXPECT_TRUE(retain(governed, LockMode::governance, later(500), true));
  EXPECT_TRUE(t.remove_version("b", "k", governed, true));
  EXPECT_EQ(*t.get("b", "k"), "two");
}

TEST_P(LockStore, ARetentionEnds) {
  std::string one = put("one");
  ASSERT_TRUE(retain(one, LockMode::compliance, later(60)));
  EXPECT_EQ(t.remove_version("b", "k", one).error(), Errc::access_denied);
  for (int i = 0; i < 60; ++i) later(0);
  EXPECT_TRUE(t.remove_version("b", "k", one));
}

TEST_P(LockStore, TheDefaultRetentionIsForVersionsWithoutOne) {
  BucketLock lock{.enabled = true, .mode = LockMode::governance, .years = false, .period = 3};
  ASSERT_TRUE(t.run(t.engine().set_lock("b", lock)));
  t.reopen();
  EXPECT_EQ(t.run(t.engine().bucket("b"))->lock, lock);
  auto stored = t.put("b", "k", "one");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->lock.mode, LockMode::governance);
  EXPECT_EQ(stored->lock.retain_until_us, stored->modified_us + 3 * 86'400'000'000);
  EXPECT_EQ(t.remove_version("b", "k", stored->version_id).error(), Errc::access_denied);
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ObjectInfo own;
  own.lock = {LockMode::compliance, later(5), false};
  auto locked = t.run((*writer)->commit(own, {}));
  ASSERT_TRUE(locked);
  EXPECT_EQ(locked->lock, own.lock);
}

// Listing.

TEST_P(VersionStore, PagesOfVersionsAddUpAtEveryPageSize) {
  put("old", "a");
  put("old", std::string("a\0b", 3));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::vector<std::string> wanted;
  for (const std::string key : {"a", "dir/x", "dir/y", "m", "z/1"}) {
    for (int i = 0; i < 4; ++i) put(std::to_string(i), key);
  }
  t.remove("b", "m");
  t.remove("b", "never");
  for (const std::string delimiter : {"", "/"}) {
    std::vector<std::string> whole;
    for (int size : {1000, 1, 2, 3, 5}) {
      std::vector<std::string> got;
      ListVersionsRequest request{.prefix = "", .delimiter = delimiter, .key_marker = {}, .version_id_marker = {}};
      request.max_keys = size;
      for (int pages = 0; pages < 100; ++pages) {
        auto page = t.list_versions("b", request);
        ASSERT_TRUE(page) << describe(page.error());
        ASSERT_LE(page->versions.size() + page->common_prefixes.size(), static_cast<size_t>(size));
        for (const auto& e : page->versions) got.push_back(e.key + " " + e.info.version_id + (e.latest ? " *" : ""));
        for (const auto& p : page->common_prefixes) got.push_back(p);
        if (!page->truncated) break;
        request.key_marker = page->next_key_marker;
        request.version_id_marker = page->next_version_id_marker;
      }
      std::sort(got.begin(), got.end());
      if (size == 1000) whole = got;
      EXPECT_EQ(got, whole) << "pages of " << size;
    }
    EXPECT_EQ(whole.size(), delimiter.empty() ? 24u : 14u);
  }
}

TEST_P(VersionStore, AMarkerThatIsGoneStillSaysWhereToGoOn) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.insert(ids.begin(), put(std::to_string(i)));
  const auto rest = [&](const std::string& marker) {
    List got;
    const auto listed =
        t.all_versions("b", {.prefix = {}, .delimiter = {}, .key_marker = "k", .version_id_marker = marker});
    for (const auto& e : *listed) got.push_back((e.latest ? "*" : "") + e.info.version_id);
    return got;
  };
  EXPECT_EQ(rest(ids[0]), (List{ids[1], ids[2], ids[3]}));
  EXPECT_EQ(rest(ids[2]), List{ids[3]});
  ASSERT_TRUE(t.remove_version("b", "k", ids[0]));
  EXPECT_EQ(rest(ids[0]), (List{"*" + ids[1], ids[2], ids[3]}));
  ASSERT_TRUE(t.remove_version("b", "k", ids[2]));
  EXPECT_EQ(rest(ids[2]), List{ids[3]});
  EXPECT_EQ(rest(""), List{});
}

ON_ALL_ENGINES(VersionStore);
ON_ALL_ENGINES(LockStore);

}  // namespace
}  // namespace verbena::store::conformance
