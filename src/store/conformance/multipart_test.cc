// Uploads and their parts.
#include "store/conformance/engines.h"
#include "store/logic/keys.h"
#include "store/logic/object_ops.h"

namespace verbena::store::conformance {
namespace {

class Multipart : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  UploadInfo start(const std::string& key) {
    auto upload = t.start_upload("b", key);
    EXPECT_TRUE(upload);
    return *upload;
  }
  PartInfo part(const UploadInfo& upload, int number, std::string_view bytes) {
    auto stored = t.put_part(upload, number, bytes);
    EXPECT_TRUE(stored);
    return *stored;
  }
};

TEST_P(Multipart, JoinsPartsOfAnySizeWithoutCopyingAndReadsAcrossThem) {
  UploadInfo upload = start("k");
  std::string a = pattern(300'001, 1), b = pattern(100, 2), c = pattern(70'000, 3);
  PartInfo p2 = part(upload, 2, b), p1 = part(upload, 1, a), p7 = part(upload, 7, c);
  part(upload, 5, pattern(80'000, 4));  // not named at completion
  auto done = t.complete(upload, {p1, p2, p7});
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ(done->size, a.size() + b.size() + c.size());
  ASSERT_EQ(done->parts.size(), 3u);
  EXPECT_EQ(done->parts[1].number, 2);
  t.reopen();
  std::string whole = a + b + c;
  EXPECT_TRUE(*t.get("b", "k") == whole);
  auto reader = t.run(t.engine().open("b", "k"));
  for (uint64_t offset : {299'990ul, 300'000ul, 300'101ul, 0ul}) {
    EXPECT_EQ(*t.read(**reader, offset, 200), whole.substr(offset, 200));
  }
  EXPECT_EQ((*reader)->info().parts.size(), 3u);
  reader->reset();
  t.expect_no_leak();
  EXPECT_LT(t.live_bytes(), whole.size() + 80'000);  // parts not named are removed
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
}

TEST_P(Multipart, AListOfPartsThatIsNotTheObjectsIsDamageAndNoOtherObject) {
  for (const char* key : {"k", "l"}) {
    const UploadInfo upload = start(key);
    const PartInfo p1 = part(upload, 1, pattern(70'000, 1)), p2 = part(upload, 2, "two");
    ASSERT_TRUE(t.complete(upload, {p1, p2}));
  }
  Context& context = *engine_of(t).context();
  const auto bucket = context.buckets.find("b");
  Judge judge = [id = bucket->id](Transaction& transaction) -> Result<void> {
    VB_ASSIGN(const std::string head, transaction.get(Table::objects, keys::object(id, "k")));
    VB_ASSIGN(const ObjectRecord record, decode_object(head));
    VB_ASSIGN(auto parts, object_parts(transaction, record));
    parts.pop_back();
    transaction.put(Table::uploads, keys::object_parts(record.id), encode(parts));
    return {};
  };
  Change change{.judge = std::move(judge), .bucket = bucket, .place = {bucket->id, "k"}};
  ASSERT_TRUE(t.run(context.rows->commit(std::move(change))));
  EXPECT_EQ(t.get("b", "k").error(), Errc::corrupt_object);
  EXPECT_EQ(t.run(t.engine().stat("b", "k")).error(), Errc::corrupt_object);
  EXPECT_EQ(t.run(t.engine().rename("b", {.from = "k", .to = "m"})).error(), Errc::corrupt_object);
  EXPECT_EQ(*t.get("b", "l"), pattern(70'000, 1) + "two");
}

TEST_P(Multipart, RefusesWrongParts) {
  UploadInfo upload = start("k");
  PartInfo p1 = part(upload, 1, "one"), p2 = part(upload, 2, "two");
  EXPECT_EQ(t.complete(upload, {p2, p1}).error(), Errc::invalid_part_order);
  EXPECT_EQ(t.complete(upload, {p1, p1}).error(), Errc::invalid_part_order);
  PartInfo wrong = p1;
  wrong.etag = "other";
  EXPECT_EQ(t.complete(upload, {wrong}).error(), Errc::invalid_part);
  wrong.number = 3;
  EXPECT_EQ(t.complete(upload, {p1, wrong}).error(), Errc::invalid_part);
  EXPECT_EQ(t.complete(upload, {}).error(), Errc::invalid_request);
  EXPECT_EQ(t.run(t.engine().create_part("b", "k", upload.upload_id, 0, {})).error(), Errc::invalid_argument);
  EXPECT_EQ(t.run(t.engine().create_part("b", "k", upload.upload_id, 10'001, {})).error(), Errc::invalid_argument);
  EXPECT_EQ(t.complete(upload, {p1}, {{}, "*"})->size, 3u);
}

TEST_P(Multipart, ALaterPartReplacesAnEarlierOne) {
  UploadInfo upload = start("k");
  PartInfo old = part(upload, 1, pattern(100'000, 1)), now = part(upload, 1, pattern(90'000, 2));
  t.expect_no_leak();
  EXPECT_EQ(t.complete(upload, {old}).error(), Errc::invalid_part);
  ASSERT_TRUE(t.complete(upload, {now}));
  EXPECT_TRUE(*t.get("b", "k") == pattern(90'000, 2));
}

TEST_P(Multipart, AbortFreesThePartsAndALatePartCannotComeBack) {
  UploadInfo upload = start("k"), other = start("k");
  part(upload, 1, pattern(100'000, 1));
  auto late = t.run(t.engine().create_part("b", "k", upload.upload_id, 2, 200'000));
  ASSERT_TRUE(t.append(**late, pattern(200'000, 2)));
  ASSERT_TRUE(t.run(t.engine().abort_upload("b", "k", upload.upload_id)));
  ObjectInfo info;
  info.size = 200'000;
  EXPECT_EQ(t.run((*late)->commit(info, {})).error(), Errc::no_such_upload);
  EXPECT_EQ(t.run(t.engine().abort_upload("b", "k", upload.upload_id)).error(), Errc::no_such_upload);
  EXPECT_EQ(t.run(t.engine().create_part("b", "k", upload.upload_id, 3, {})).error(), Errc::no_such_upload);
  EXPECT_EQ(t.run(t.engine().upload("b", "k", upload.upload_id)).error(), Errc::no_such_upload);
  EXPECT_EQ(t.run(t.engine().upload("b", "k", "../../etc")).error(), Errc::no_such_upload);
  EXPECT_TRUE(t.run(t.engine().upload("b", "k", other.upload_id)));
  EXPECT_EQ(t.run(t.engine().upload("b", "other", other.upload_id)).error(), Errc::no_such_upload);
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
}

TEST_P(Multipart, ALatePartAfterCompletionIsRefused) {
  UploadInfo upload = start("k");
  PartInfo p1 = part(upload, 1, pattern(70'000, 1));
  auto late = t.run(t.engine().create_part("b", "k", upload.upload_id, 1, {}));
  ASSERT_TRUE(t.append(**late, "late"));
  ASSERT_TRUE(t.complete(upload, {p1}));
  ObjectInfo info;
  info.size = 4;
  EXPECT_EQ(t.run((*late)->commit(info, {})).error(), Errc::no_such_upload);
  EXPECT_EQ(t.complete(upload, {p1}).error(), Errc::no_such_upload);
  EXPECT_TRUE(*t.get("b", "k") == pattern(70'000, 1));
  t.expect_no_leak();
}

TEST_P(Multipart, ListsPartsInPages) {
  UploadInfo upload = start("k");
  for (int n : {3, 1, 10'000, 42}) part(upload, n, std::to_string(n));
  auto page = t.run(t.engine().list_parts("b", "k", upload.upload_id, 0, 2));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->parts.size(), 2u);
  EXPECT_EQ(page->parts[1].number, 3);
  EXPECT_TRUE(page->truncated);
  EXPECT_EQ(page->next_part_number_marker, 3);
  page = t.run(t.engine().list_parts("b", "k", upload.upload_id, 3, 2));
  EXPECT_EQ(page->parts[1].number, 10'000);
  EXPECT_EQ(page->parts[1].etag, Rig::etag_of("10000"));
  EXPECT_EQ(page->parts[1].size, 5u);
  EXPECT_FALSE(page->truncated);
}

TEST_P(Multipart, ListsUploadsByKeyThenByAge) {
  UploadInfo b1 = start("b"), a = start("a"), b2 = start("b"), x1 = start("x/1"), x2 = start("x/2");
  ListUploadsRequest request;
  request.delimiter = "/";
  auto page = t.run(t.engine().list_uploads("b", request));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->uploads.size(), 3u);
  EXPECT_EQ(page->uploads[0].upload_id, a.upload_id);
  EXPECT_EQ(page->uploads[1].upload_id, b1.upload_id);
  EXPECT_EQ(page->uploads[2].upload_id, b2.upload_id);
  EXPECT_EQ(page->uploads[2].owner, "root");
  EXPECT_EQ(page->common_prefixes, std::vector<std::string>{"x/"});
  std::vector<std::string> seen;
  request = {};
  request.max_uploads = 1;
  for (int i = 0; i < 10; ++i) {
    page = t.run(t.engine().list_uploads("b", request));
    for (const UploadInfo& upload : page->uploads) seen.push_back(upload.upload_id);
    if (!page->truncated) break;
    request.key_marker = page->next_key_marker;
    request.upload_id_marker = page->next_upload_id_marker;
  }
  EXPECT_EQ(seen, (std::vector<std::string>{a.upload_id, b1.upload_id, b2.upload_id, x1.upload_id, x2.upload_id}));
  request = {};
  request.key_marker = "b";
  EXPECT_EQ(t.run(t.engine().list_uploads("b", request))->uploads.size(), 2u);
}

TEST_P(Multipart, RemovingTheBucketRemovesItsUploads) {
  UploadInfo upload = start("k");
  part(upload, 1, pattern(100'000, 1));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
  t.make_bucket("b");
  EXPECT_EQ(t.run(t.engine().upload("b", "k", upload.upload_id)).error(), Errc::no_such_upload);
}

ON_ALL_ENGINES(Multipart);

}  // namespace
}  // namespace verbena::store::conformance
