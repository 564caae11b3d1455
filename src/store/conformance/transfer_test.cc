// A store that is copied into another engine's, and back, unchanged.
#include "store/logic/transfer.h"

#include "store/conformance/engines.h"
#include "store/logic/usage.h"

namespace verbena::store::conformance {
namespace {

class TransferTo : public OnEngine {
 protected:
  void SetUp() override {
    source_.open();
    t.open();
  }

  Result<TransferCounts> copy(Rig& from, Rig& to, bool look_again = false) {
    for (Rig* const rig : {&from, &to}) bring_into_rows(*rig);
    std::optional<Transfer> transfer(std::in_place, engine_of(from), engine_of(to),
                                     Transfer::Options{.look_again = look_again});
    auto counts = to.run(transfer->run());
    transfer.reset();
    // Its ids are store-wide: it is called once all have arrived.
    if (auto* on_disk = dynamic_cast<local::TestStore*>(&to); on_disk != nullptr && counts) {
      on_disk->options.ids_above = counts->id_max;
      on_disk->reopen();
    }
    return counts;
  }

  // Everything in a bucket, as comparable texts.
  static std::vector<std::string> all_of(Rig& rig, const std::string& bucket) {
    std::vector<std::string> all;
    auto info = rig.run(rig.engine().bucket(bucket));
    EXPECT_TRUE(info);
    if (!info) return all;
    all.push_back(encode(BucketRecord{.id = 0, .info = *info}));
    for (const std::string& name : engine_of(rig).context()->buckets.find(bucket)->documents.names()) {
      all.push_back(name + "=" + rig.document(bucket, name).value_or("?"));
    }
    ListVersionsRequest request;
    request.max_keys = 3;
    for (bool more = true; more;) {
      auto page = rig.list_versions(bucket, request);
      EXPECT_TRUE(page);
      if (!page) return all;
      for (const VersionEntry& entry : page->versions) all.push_back(version(rig, bucket, entry));
      more = page->truncated;
      request.key_marker = page->next_key_marker;
      request.version_id_marker = page->next_version_id_marker;
    }
    auto uploads = rig.run(rig.engine().list_uploads(bucket, {}));
    EXPECT_TRUE(uploads);
    for (UploadInfo& upload : uploads->uploads) {
      all.push_back(upload.key + upload.upload_id + encode(UploadRecord{.id = 0, .info = upload}));
      auto parts = rig.run(rig.engine().list_parts(bucket, upload.key, upload.upload_id, 0, 1000));
      EXPECT_TRUE(parts);
      for (PartInfo& part : parts->parts) all.push_back(encode(StoredPart{std::move(part), {}}));
    }
    all.push_back(encode(rig.usage(bucket).value_or(Usage{.objects = 1'000'000})));
    return all;
  }
  static std::string version(Rig& rig, const std::string& bucket, const VersionEntry& entry) {
    const std::string id = entry.info.version_id.empty() ? "null" : entry.info.version_id;
    auto info = rig.run(rig.engine().find_version(bucket, entry.key, id));
    EXPECT_TRUE(info) << entry.key << ' ' << id;
    if (!info) return "";
    std::vector<StoredPart> parts;
    for (PartInfo& part : info->parts) parts.push_back({part, {}});
    info->parts.clear();
    std::string text =
        entry.key + (entry.latest ? "*" : " ") + encode(ObjectRecord{.id = 0, .info = *info, .blob = {}});
    text += encode(parts);
    if (!info->delete_marker) text += rig.get_version(bucket, entry.key, id).value_or("unreadable");
    return text;
  }

  void fill(Rig& rig) {
    rig.make_bucket("plain");
    ASSERT_TRUE(rig.set_document("plain", "policy", "who may"));
    for (const size_t size : {0u, 10u, 16'384u, 16'385u, 300'000u, 5'000'000u}) {
      ASSERT_TRUE(rig.put("plain", "size/" + std::to_string(size), pattern(size, size)));
    }
    ASSERT_TRUE(rig.put("plain", std::string("zero\0in it", 10), "x"));
    make_multipart(rig, "plain", "of parts");
    auto upload = rig.start_upload("plain", "under way");
    ASSERT_TRUE(upload);
    ASSERT_TRUE(rig.put_part(*upload, 2, pattern(100'000, 2)));
    ASSERT_TRUE(rig.put_part(*upload, 7, "small"));
    rig.make_bucket("versions");
    ASSERT_TRUE(rig.put("versions", "k", "null version"));
    ASSERT_TRUE(rig.set_versioning("versions", Versioning::enabled));
    ASSERT_TRUE(rig.run(rig.engine().set_lock("versions", {.enabled = true})));
    ASSERT_TRUE(rig.put("versions", "k", pattern(50'000, 1)));
    ASSERT_TRUE(rig.remove("versions", "k"));
    ASSERT_TRUE(rig.put("versions", "k", pattern(70'000, 2)));
    make_multipart(rig, "versions", "k");
    ASSERT_TRUE(rig.put("versions", "k", "newest"));
    ASSERT_TRUE(rig.put("versions", "gone", "x"));
    ASSERT_TRUE(rig.remove("versions", "gone"));
    ObjectChange change;
    change.tags = Tags{{"colour", "green"}};
    change.legal_hold = true;
    change.attributes = {{"acl", "private"}};
    ASSERT_TRUE(rig.run(rig.engine().update("versions", "k", "", change)));
  }
  static void make_multipart(Rig& rig, const std::string& bucket, const std::string& key) {
    auto upload = rig.start_upload(bucket, key);
    ASSERT_TRUE(upload);
    std::vector<PartInfo> parts;
    for (int i = 1; i <= 3; ++i) {
      auto part = rig.put_part(*upload, i, pattern(i == 2 ? 100 : 90'000, static_cast<uint64_t>(i)));
      ASSERT_TRUE(part);
      parts.push_back(*part);
    }
    ASSERT_TRUE(rig.complete(*upload, parts));
  }

  LocalRig source_;
};

TEST_P(TransferTo, EverythingIsThereAsItWas) {
  fill(source_);
  const auto counts = copy(source_, t);
  ASSERT_TRUE(counts) << describe(counts.error());
  EXPECT_EQ(counts->buckets, 2u);
  EXPECT_EQ(counts->keys, 11u);
  EXPECT_EQ(counts->uploads, 1u);
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(t, bucket), all_of(source_, bucket)) << bucket;
  t.expect_no_leak();
}

TEST_P(TransferTo, WhatWasUnderWayGoesOnAndNewVersionsAreTheNewest) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  auto uploads = t.run(t.engine().list_uploads("plain", {}));
  ASSERT_EQ(uploads->uploads.size(), 1u);
  UploadInfo upload = uploads->uploads.front();
  upload.bucket = "plain";
  auto parts = t.run(t.engine().list_parts("plain", upload.key, upload.upload_id, 0, 10));
  ASSERT_TRUE(t.complete(upload, parts->parts));
  EXPECT_EQ(*t.get("plain", "under way"), pattern(100'000, 2) + "small");
  const auto put = t.put("versions", "k", "newer than all");
  ASSERT_TRUE(put);
  const auto listed = t.all_versions("versions");
  const auto first = std::ranges::find(*listed, "k", &VersionEntry::key);
  EXPECT_EQ(first->info.version_id, put->version_id);
  EXPECT_EQ(listed->size(), 9u);
  EXPECT_EQ(t.remove_version("versions", "k", "null").value().version_id, "null");
  EXPECT_EQ(t.usage("versions").value(), t.usage_by_listing("versions").value());
  t.expect_no_leak();
}

TEST_P(TransferTo, ARunThatWasBrokenOffIsGoneOnWith) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  // As after an interruption: a key is missing, one is incomplete, one is of another origin, one is extra.
  ASSERT_TRUE(t.set_document("versions", std::string(unfinished_mark), "1"));
  ASSERT_TRUE(t.set_document("plain", std::string(unfinished_mark), "1"));
  ASSERT_TRUE(t.remove("plain", "size/300000"));
  ASSERT_TRUE(t.remove_version("versions", "k", "null"));
  auto counts = copy(source_, t);
  ASSERT_TRUE(counts) << describe(counts.error());
  EXPECT_EQ(counts->keys, 2u);
  EXPECT_EQ(counts->keys_there, 9u);
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(t, bucket), all_of(source_, bucket)) << bucket;
  // Rows of another origin are removed, too, if the target cannot have been used.
  ASSERT_TRUE(t.remove("plain", "size/300000"));
  ASSERT_TRUE(t.put("plain", "size/10", "something else"));
  ASSERT_TRUE(t.put("plain", "zz", pattern(100'000, 1), {.conditions = {}, .size_hint = 100'000}));
  ASSERT_TRUE(t.set_document("plain", "policy", "somebody else"));
  counts = copy(source_, t, /*look_again=*/true);
  ASSERT_TRUE(counts) << describe(counts.error());
  EXPECT_EQ(counts->keys, 3u);
  EXPECT_EQ(counts->keys_there, 9u);
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(t, bucket), all_of(source_, bucket)) << bucket;
  t.expect_no_leak();
}

TEST_P(TransferTo, WhatUsersMadeOfABucketThatIsNotAllThereIsNotOverwritten) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  const auto refused = [&] {
    EXPECT_EQ(copy(source_, t).error(), Errc::conditional_conflict);
    EXPECT_TRUE(t.document("versions", std::string(unfinished_mark))) << "nothing was ended";
  };
  // The state after all keys below "w" were copied.
  for (const char* bucket : {"plain", "versions"}) {
    ASSERT_TRUE(t.set_document(bucket, std::string(unfinished_mark), "1w"));
  }
  ASSERT_TRUE(t.put("plain", "size/10", "newer"));
  refused();
  EXPECT_EQ(*t.get("plain", "size/10"), "newer");
  ASSERT_TRUE(t.remove("plain", "size/10"));
  refused();
  EXPECT_EQ(t.get("plain", "size/10").error(), Errc::no_such_key) << "it was removed by a user";
  ASSERT_TRUE(t.set_document("plain", std::string(unfinished_mark), "1"));
  ASSERT_TRUE(t.put("plain", "xx", "a new key"));
  refused();
  EXPECT_EQ(*t.get("plain", "xx"), "a new key");
  ASSERT_TRUE(t.remove("plain", "xx"));
  ASSERT_TRUE(t.set_document("plain", "policy", "who else may"));
  refused();
  EXPECT_EQ(*t.document("plain", "policy"), "who else may");
  ASSERT_TRUE(t.set_document("plain", "policy", "who may"));
  const auto put = t.put("versions", "k", "a new version");
  ASSERT_TRUE(put);
  refused();
  EXPECT_EQ(*t.get("versions", "k"), "a new version");
  ASSERT_TRUE(t.remove_version("versions", "k", put->version_id));
  const auto counts = copy(source_, t);
  ASSERT_TRUE(counts) << describe(counts.error());
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(t, bucket), all_of(source_, bucket)) << bucket;
  t.expect_no_leak();
}

TEST_P(TransferTo, ABucketThatWasMadeAndNotMarkedIsGoneOnWith) {
  fill(source_);
  const auto buckets = source_.run(source_.engine().buckets());
  for (const BucketInfo& info : *buckets) ASSERT_TRUE(t.run(t.engine().create_bucket(info)));
  const auto counts = copy(source_, t);
  ASSERT_TRUE(counts) << describe(counts.error());
  EXPECT_EQ(counts->buckets_there, 0u);
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(t, bucket), all_of(source_, bucket)) << bucket;
  t.expect_no_leak();
}

TEST_P(TransferTo, ADocumentThatWasRemovedBehindTheFirstKeyIsNotBroughtAgain) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  ASSERT_TRUE(t.set_document("plain", std::string(unfinished_mark), "1w"));
  ASSERT_TRUE(t.run(t.engine().remove_document("plain", "policy")));
  EXPECT_EQ(copy(source_, t).error(), Errc::conditional_conflict);
  EXPECT_EQ(t.document("plain", "policy").error(), Errc::not_found);
}

TEST_P(TransferTo, ABucketThatIsNotAllThereIsNotCopied) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  ASSERT_TRUE(t.set_document("versions", std::string(unfinished_mark), "1"));
  LocalRig back;
  back.open();
  EXPECT_EQ(copy(t, back, /*look_again=*/true).error(), Errc::conditional_conflict);
  EXPECT_TRUE(back.run(back.engine().buckets())->empty()) << "nothing was changed";
  ASSERT_TRUE(copy(source_, t));
  EXPECT_TRUE(copy(t, back, /*look_again=*/true));
}

TEST_P(TransferTo, WhatWasFinishedIsLeftAndAnotherOnesBucketIsRefused) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  ASSERT_TRUE(t.put("plain", "since", "x"));
  const auto again = copy(source_, t);
  ASSERT_TRUE(again) << describe(again.error());
  EXPECT_EQ(again->buckets_there, 2u);
  EXPECT_EQ(*t.get("plain", "since"), "x");
  t.make_bucket("other");
  source_.make_bucket("another");
  source_.make_bucket("other");
  EXPECT_EQ(copy(source_, t).error(), Errc::bucket_already_exists);
  EXPECT_FALSE(t.run(t.engine().bucket("another"))) << "nothing was changed";
}

TEST_P(TransferTo, AndBackWithIdsThatGoOn) {
  fill(source_);
  ASSERT_TRUE(copy(source_, t));
  ASSERT_TRUE(t.put("versions", "k", "made there"));
  LocalRig back;
  back.open();
  const auto counts = copy(t, back, /*look_again=*/true);
  ASSERT_TRUE(counts) << describe(counts.error());
  for (const char* bucket : {"plain", "versions"}) EXPECT_EQ(all_of(back, bucket), all_of(t, bucket)) << bucket;
  const auto put = back.put("versions", "k", "made here");
  ASSERT_TRUE(put);
  const auto listed = back.all_versions("versions");
  EXPECT_EQ(std::ranges::find(*listed, "k", &VersionEntry::key)->info.version_id, put->version_id);
  // With look_again everything is found, and anything removed since is an error.
  ASSERT_TRUE(back.remove_version("versions", "k", put->version_id));
  const auto again = copy(t, back, /*look_again=*/true);
  ASSERT_TRUE(again) << describe(again.error());
  EXPECT_EQ(again->keys, 0u);
  back.make_bucket("not from there");
  EXPECT_EQ(copy(t, back, /*look_again=*/true).error(), Errc::bucket_already_exists);
  back.expect_no_leak();
}

ON_ALL_ENGINES(TransferTo);

}  // namespace
}  // namespace verbena::store::conformance
