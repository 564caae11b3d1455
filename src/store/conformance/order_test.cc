// Invariants of a key's changes, whatever the clock says and whatever a judge does.
#include "store/conformance/engines.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::conformance {
namespace {

class Order : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  Result<ObjectInfo> head(const std::string& key) {
    bring_into_rows(t);
    return t.run(t.engine().stat("b", key));
  }
};
ON_ALL_ENGINES(Order);

TEST_P(Order, TimesOfAKeyGrowWhenTheClockGoesBack) {
  int64_t last = 0;
  const auto expect_later = [&](const char* what) {
    const auto info = head("k");
    ASSERT_TRUE(info) << what;
    EXPECT_GT(info->modified_us, last) << what;
    last = info->modified_us;
    t.step_clock(std::chrono::hours(-1));
  };
  ASSERT_TRUE(t.put("b", "k", "one"));
  expect_later("a new one");
  ASSERT_TRUE(t.put("b", "k", "two"));
  expect_later("overwritten");
  ASSERT_TRUE(t.remove("b", "k"));
  ASSERT_TRUE(t.put("b", "k", "three"));
  expect_later("removed and put again");
  const auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  std::vector<PartInfo> parts = {*t.put_part(*upload, 1, "four")};
  const auto listed = [&] { return t.run(t.engine().list_parts("b", "k", upload->upload_id, 0, 1))->parts.front(); };
  const int64_t first = listed().modified_us;
  t.step_clock(std::chrono::hours(-1));
  parts = {*t.put_part(*upload, 1, "4444")};
  EXPECT_GT(listed().modified_us, first);
  ASSERT_TRUE(t.complete(*upload, parts));
  expect_later("completed");
  auto writer = t.run(t.engine().create_append("b", "k", 4, nullptr));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "five"));
  ObjectInfo more;
  more.size = 4;
  ASSERT_TRUE(t.run((*writer)->commit(more, {})));
  writer->reset();
  expect_later("appended to");
}

TEST_P(Order, TimesOfVersionsGrowWhenTheClockGoesBack) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(t.put("b", "k", std::to_string(i)));
    t.step_clock(std::chrono::hours(-1));
    ASSERT_TRUE(t.remove("b", "k"));
    t.step_clock(std::chrono::hours(-1));
  }
  ASSERT_TRUE(t.put("b", "k", "last"));
  const auto versions = t.all_versions("b");
  ASSERT_TRUE(versions);
  ASSERT_EQ(versions->size(), 5u);
  for (size_t i = 1; i < versions->size(); ++i) {
    EXPECT_GT((*versions)[i - 1].info.modified_us, (*versions)[i].info.modified_us) << i;
  }
}

TEST_P(Order, NoChangeKillsTheBytesThatItBrings) {
  ASSERT_TRUE(t.put("b", "k", "before"));
  bring_into_rows(t);
  const auto& context = engine_of(*rig_).context();
  const auto bucket = context->buckets.find("b");
  ASSERT_NE(bucket, nullptr);
  std::shared_ptr<BlobWriter> writer = context->blobs->create(*bucket, 3);
  ASSERT_TRUE(t.run(writer->append(t.chunk("new"))));
  const auto blob = t.run(writer->finish());
  ASSERT_TRUE(blob);
  const std::string row = keys::object(bucket->id, "k");
  // A judge that runs again over the result of its own change, and releases that.
  Change change{.judge = [&](Transaction& transaction) -> Result<void> {
                  VB_ASSIGN(const auto value, transaction.get(Table::objects, row));
                  VB_ASSIGN(ObjectRecord record, decode_object(value));
                  transaction.kill(*blob);
                  record.blob = *blob;
                  record.info.size = blob->size;
                  transaction.put(Table::objects, row, encode(record));
                  return {};
                },
                .bucket = bucket,
                .place = {bucket->id, "k"},
                .blob = writer,
                .takes_space = true};
  EXPECT_EQ(t.run(context->rows->commit(std::move(change))).error(), Errc::internal);
  change = {};
  writer.reset();
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), "before");
  t.expect_no_leak();
}

}  // namespace
}  // namespace verbena::store::conformance
