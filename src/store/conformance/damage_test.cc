// Listings of buckets with rows that do not decode: one for a client fails, one that passes over damage leaves out
// those keys alone.
#include "store/conformance/engines.h"
#include "store/logic/keys.h"
#include "store/logic/versions.h"

namespace verbena::store::conformance {
namespace {

class DamagedRows : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  void damage(Table table, const std::string& row, const std::string& key) {
    bring_into_rows(t);
    auto judge = [table, row](Transaction& rows) -> Result<void> {
      rows.put(table, row, "\xff\xff");
      return {};
    };
    const Place place{.bucket = id(), .key = key};
    const auto done =
        t.run(engine_of(t).context()->rows->commit({.judge = std::move(judge), .bucket = nullptr, .place = place}));
    ASSERT_TRUE(done) << describe(done.error());
  }
  void damage_object(const std::string& key) { damage(Table::objects, keys::object(id(), key), key); }
  void damage_version(const std::string& key, const ObjectInfo& info) {
    damage(Table::versions, keys::version(id(), key, *parse_version_id(info.version_id)), key);
  }
  uint64_t id() { return engine_of(t).context()->buckets.find("b")->id; }

  using Names = std::vector<std::string>;
  // All pages, of so many names each.
  Names keys_by(int max_keys, const std::string& delimiter, Names& damaged) {
    Names names;
    ListRequest request;
    request.delimiter = delimiter;
    request.max_keys = max_keys;
    request.passes_damage = true;
    for (bool more = true; more;) {
      const auto page = t.list("b", request);
      EXPECT_TRUE(page) << describe(page.error());
      if (!page) return names;
      EXPECT_LE(page->entries.size() + page->common_prefixes.size() + page->damaged.size(),
                static_cast<size_t>(max_keys));
      for (const ListEntry& entry : page->entries) names.push_back(entry.key);
      names.insert(names.end(), page->common_prefixes.begin(), page->common_prefixes.end());
      damaged.insert(damaged.end(), page->damaged.begin(), page->damaged.end());
      more = page->truncated;
      request.after = page->next_after;
    }
    return names;
  }
  Names versions_by(int max_keys, Names& damaged) {
    Names names;
    ListVersionsRequest request;
    request.max_keys = max_keys;
    request.passes_damage = true;
    for (bool more = true; more;) {
      const auto page = t.list_versions("b", request);
      EXPECT_TRUE(page) << describe(page.error());
      if (!page) return names;
      for (const VersionEntry& entry : page->versions) names.push_back(entry.key + (entry.latest ? " latest" : ""));
      damaged.insert(damaged.end(), page->damaged.begin(), page->damaged.end());
      more = page->truncated;
      request.key_marker = page->next_key_marker;
      request.version_id_marker = page->next_version_id_marker;
    }
    return names;
  }
};

TEST_P(DamagedRows, APageOfObjectsLeavesOutThoseKeysAlone) {
  for (const char* key : {"a", "b/1", "b/2", "c", "d", "e"}) ASSERT_TRUE(t.put("b", key, key));
  for (const char* key : {"a", "c", "e"}) damage_object(key);
  EXPECT_FALSE(t.list("b")) << "a client is not shown a part for the whole";
  for (const int max_keys : {1, 2, 3, 1000}) {
    Names damaged;
    EXPECT_EQ(keys_by(max_keys, "", damaged), (Names{"b/1", "b/2", "d"})) << max_keys;
    EXPECT_EQ(damaged, (Names{"a", "c", "e"})) << max_keys;
    damaged.clear();
    EXPECT_EQ(keys_by(max_keys, "/", damaged).size(), 2U) << max_keys;
    EXPECT_EQ(damaged, (Names{"a", "c", "e"})) << max_keys;
  }
}

TEST_P(DamagedRows, APageOfVersionsLeavesOutTheRestOfThoseKeysAlone) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::vector<ObjectInfo> of_c;
  for (const char* key : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 3; ++i) {
      const auto put = t.put("b", key, key + std::to_string(i));
      ASSERT_TRUE(put);
      if (std::string_view(key) == "c") of_c.push_back(*put);
    }
  }
  damage_object("a");
  damage_version("c", of_c[1]);
  EXPECT_FALSE(t.list_versions("b"));
  for (const int max_keys : {1, 2, 3, 5, 1000}) {
    Names damaged;
    EXPECT_EQ(versions_by(max_keys, damaged), (Names{"b latest", "b", "b", "c latest", "d latest", "d", "d"}))
        << max_keys;
    EXPECT_EQ(damaged, (Names{"a", "c"})) << max_keys;
  }
}

// As a pass meets it that goes on where another one ended.
TEST_P(DamagedRows, AMarkerWhoseKeyIsDamagedIsPassedOver) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  ObjectInfo newest;
  for (int i = 0; i < 2; ++i) newest = t.put("b", "k", "one").value();
  ASSERT_TRUE(t.put("b", "l", "one"));
  damage_object("k");
  for (const std::string& marker : {newest.version_id, std::string(null_version_id)}) {
    ListVersionsRequest request;
    request.key_marker = "k";
    request.version_id_marker = marker;
    EXPECT_FALSE(t.list_versions("b", request));
    request.passes_damage = true;
    const auto page = t.list_versions("b", request);
    ASSERT_TRUE(page) << describe(page.error());
    EXPECT_EQ(page->damaged, Names{"k"});
    ASSERT_EQ(page->versions.size(), 1U);
    EXPECT_EQ(page->versions[0].key, "l");
  }
}

TEST_P(DamagedRows, APageOfUploadsLeavesOutThoseAlone) {
  std::vector<UploadInfo> uploads;
  for (const char* key : {"a", "b", "c"}) uploads.push_back(t.start_upload("b", key).value());
  damage(Table::uploads, keys::upload(id(), "a", uploads[0].upload_id), "a");
  damage(Table::uploads, keys::upload(id(), "c", uploads[2].upload_id), "c");
  EXPECT_FALSE(t.run(t.engine().list_uploads("b", {})));
  for (const int max_uploads : {1, 2, 1000}) {
    Names names, damaged;
    ListUploadsRequest request;
    request.max_uploads = max_uploads;
    request.passes_damage = true;
    for (bool more = true; more;) {
      const auto page = t.run(t.engine().list_uploads("b", request));
      ASSERT_TRUE(page) << describe(page.error());
      for (const UploadInfo& upload : page->uploads) names.push_back(upload.key);
      damaged.insert(damaged.end(), page->damaged.begin(), page->damaged.end());
      more = page->truncated;
      request.key_marker = page->next_key_marker;
      request.upload_id_marker = page->next_upload_id_marker;
    }
    EXPECT_EQ(names, Names{"b"}) << max_uploads;
    EXPECT_EQ(damaged, (Names{"a", "c"})) << max_uploads;
  }
}

ON_ALL_ENGINES(DamagedRows);

}  // namespace
}  // namespace verbena::store::conformance
