// Ends and bounds on engines that keep none: what would last for ever there is refused, and leaves nothing.
#include <map>

#include "store/conformance/engines.h"
#include "store/conformance/on_rados.h"
#include "store/ends.h"
#include "store/logic/transfer.h"
#include "store/removal_grounds.h"

namespace verbena::store::conformance {
namespace {

// As long as servers run that do not know ends.
class OlderRadosRig final : public RadosRig {
 public:
  void open() override {
    RadosRig::open();
    rados::Engine& engine = parts_of(*this);
    librados::ObjectWriteOperation op;
    const std::map<std::string, rados::Buffer> row = {{"format", rados::to_buffer("2 0")}};
    op.omap_set(row);
    ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, std::string(rados::servers_object),
                                               std::move(op))),
              0);
    ASSERT_TRUE(eventually([&] { return engine.formats.current() == 2; }));
  }
};

class WithoutEnds : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    ASSERT_FALSE(engine_of(t).keeps_ends());
    source_.open();
    source_.make_bucket("b");
    ASSERT_TRUE(source_.put("b", "a plain one", pattern(100'000, 1)));
  }
  static ObjectInfo brief(std::string_view bytes) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = Rig::etag_of(bytes);
    info.headers.emplace_back(ttl_header, "60");
    return info;
  }
  static Result<ObjectInfo> commit(Rig& rig, const std::string& key, const std::string& bytes, bool append = false) {
    VB_ASSIGN(auto writer, rig.run(append ? rig.engine().create_append("b", key, bytes.size())
                                          : rig.engine().create("b", key, bytes.size())));
    VB_TRY(rig.append(*writer, bytes));
    return rig.run(writer->commit(brief(bytes), {}));
  }
  // Where the copy of the source into the engine fails for want of ends or bounds; else what came of it.
  std::string refused_at(bool keeps_bounds = true) {
    Transfer transfer(engine_of(source_), engine_of(t), {.keeps_bounds = keeps_bounds});
    const auto counts = t.run(transfer.run());
    if (counts) return "copied";
    return counts.error() == Errc::not_implemented ? transfer.where() : describe(counts.error());
  }

  LocalRig source_;
};

TEST_P(WithoutEnds, AnObjectWithATtlIsRefusedAndNothingIsLeft) {
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "old"));
  const auto refused = [](const Result<ObjectInfo>& done) { return !done && done.error() == Errc::not_implemented; };
  EXPECT_TRUE(refused(commit(t, "k", pattern(300'000, 1))));
  EXPECT_TRUE(refused(commit(t, "new", "bytes")));
  EXPECT_TRUE(refused(commit(t, "appended", "bytes", /*append=*/true)));
  for (const std::string_view how : {std::string_view("60"), touch_again, touch_by_read}) {
    ObjectChange change;
    change.attributes.emplace_back(touch_attribute, how);
    EXPECT_TRUE(refused(t.run(t.engine().update("b", "k", "", std::move(change))))) << how;
  }
  EXPECT_EQ(t.get("b", "k").value_or(""), "old");
  EXPECT_EQ(t.all_versions("b").value_or(std::vector<VersionEntry>{}).size(), 1u);
  EXPECT_EQ(t.usage("b").value(), t.usage_by_listing("b").value());
  t.expect_no_leak();
}

TEST_P(WithoutEnds, ACopyOfAStoreNamesTheObjectThatHasAnEnd) {
  ASSERT_TRUE(commit(source_, "brief", pattern(100'000, 2)));
  EXPECT_EQ(refused_at(), "b/brief");
  EXPECT_EQ(t.get("b", "brief").error(), Errc::no_such_key);
  ASSERT_TRUE(source_.remove("b", "brief"));
  EXPECT_EQ(refused_at(), "copied");
  EXPECT_EQ(t.get("b", "a plain one").value_or(""), pattern(100'000, 1));
  t.expect_no_leak();
}

// It was copied, and its completion refused for ever.
TEST_P(WithoutEnds, AnUploadThatHasATtlIsNotCopied) {
  UploadInfo brief_one;
  brief_one.bucket = "b";
  brief_one.key = "under way";
  brief_one.owner = "root";
  brief_one.headers.emplace_back(ttl_header, "60");
  const auto upload = source_.run(source_.engine().create_upload(brief_one));
  ASSERT_TRUE(upload);
  ASSERT_TRUE(source_.put_part(*upload, 1, pattern(100'000, 3)));
  EXPECT_EQ(refused_at(), "b/under way");
  EXPECT_TRUE(t.run(t.engine().list_uploads("b", {}))->uploads.empty());
  ASSERT_TRUE(source_.run(source_.engine().abort_upload("b", "under way", upload->upload_id)));
  EXPECT_EQ(refused_at(), "copied");
  t.expect_no_leak();
}

// Its copy grew without a bound, though it showed one.
TEST_P(WithoutEnds, ABoundedBucketIsNotCopiedToWhereNothingIsEvicted) {
  ASSERT_TRUE(source_.set_document("b", std::string(bounding_document), "a bound"));
  EXPECT_EQ(refused_at(/*keeps_bounds=*/false), "b");
  EXPECT_TRUE(t.run(t.engine().buckets())->empty()) << "nothing was changed";
  ASSERT_TRUE(source_.run(source_.engine().remove_document("b", bounding_document)));
  EXPECT_EQ(refused_at(/*keeps_bounds=*/false), "copied");
}

std::vector<EngineUnderTest> engines_without_ends() {
  std::vector<EngineUnderTest> engines = {
      {"FarWithoutEnds", [] { return std::make_unique<FarRig>(/*keeps_ends=*/false); }}};
  if (RadosRig::has_cluster()) engines.push_back({"OlderRados", [] { return std::make_unique<OlderRadosRig>(); }});
  return engines;
}
const std::vector<EngineUnderTest> without_ends = engines_without_ends();
ON_THESE(WithoutEnds, without_ends);

}  // namespace
}  // namespace verbena::store::conformance
