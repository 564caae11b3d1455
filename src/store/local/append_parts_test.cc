// Appends that merge parts of an object, and those who hold or remove the parts meanwhile.
#include "store/local/test_aside.h"
#include "store/logic/append_layout.h"
#include "store/logic/context.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t part_bytes = 40'000, part_space = align_up(part_bytes);
constexpr int parts_unmerged = fan_in - 1;  // one more append makes one part of all

class MergedParts : public ::testing::Test {
 protected:
  MergedParts() {
    t.open();
    t.make_bucket("b");
  }
  void append_parts() {
    const uint64_t before = t.live_bytes();
    for (int i = 0; i < parts_unmerged; ++i) {
      const auto appended = append();
      ASSERT_TRUE(appended) << describe(appended.error());
    }
    ASSERT_EQ(t.live_bytes(), before + parts_unmerged * part_space) << "in volumes";
  }
  Result<ObjectInfo> append() {
    const std::string bytes = pattern(part_bytes, appended_++);
    VB_ASSIGN(auto writer, t.run(t.engine().create_append("b", "k", part_bytes)));
    VB_TRY(t.append(*writer, bytes));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = TestStore::etag_of(bytes);
    return t.run(writer->commit(std::move(info), {}));
  }
  static std::string parts(uint64_t from, uint64_t to) {
    std::string all;
    for (uint64_t i = from; i < to; ++i) all += pattern(part_bytes, i);
    return all;
  }

  FaultyFileSystem fs;
  TestStore t{&fs};

 private:
  uint64_t appended_ = 0;
};

// Calls the test before the first reader is opened.
class BeforeOpen final : public Blobs {
 public:
  BeforeOpen(Blobs& below, std::function<void()> call) : below_(below), call_(std::move(call)) {}
  std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) override {
    return below_.create(bucket, size_hint);
  }
  std::shared_ptr<BlobWriter> create_whole(const Bucket& bucket, Bytes bytes, BlobRef& ref) override {
    return below_.create_whole(bucket, bytes, ref);
  }
  Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                             std::span<const BlobRef> blobs) override {
    if (const auto call = std::exchange(call_, {})) call();
    return below_.open(rows, std::move(name), std::move(info), blobs);
  }

 private:
  Blobs& below_;
  std::function<void()> call_;
};

// The append was answered with damage, and the log said so.
TEST_F(MergedParts, ThatAreGoneWhenTheyAreOpenedAreNoDamageButAnotherObject) {
  append_parts();
  bool removed = false;
  Blobs& below = *t.store->context()->blobs;
  BeforeOpen blobs(below, [&] {
    removed = Aside(t.store->remove("b", "k", {})).finish().has_value();
    t.store->drain();  // their space is freed
  });
  t.store->context()->blobs = &blobs;
  const auto stored = append();
  t.store->context()->blobs = &below;
  EXPECT_TRUE(removed);
  ASSERT_TRUE(stored) << describe(stored.error());
  EXPECT_EQ(stored->size, part_bytes) << "it made the object again";
  EXPECT_TRUE(*t.get("b", "k") == parts(parts_unmerged, parts_unmerged + 1));
  EXPECT_EQ(t.live_bytes(), part_space);
  t.expect_no_leak();
}

// A reader is kept for the next request. It was let go with the object's first part alone, and held all others
// meanwhile.
TEST_F(MergedParts, TakeNoSpaceBecauseTheObjectWasRead) {
  const std::string first = pattern(settled_size, 100);  // stays a part of its own
  ASSERT_TRUE(t.put("b", "k", first, {.conditions = {}, .size_hint = first.size(), .etag = {}}));
  append_parts();
  EXPECT_TRUE(*t.get("b", "k") == first + parts(0, parts_unmerged));
  ASSERT_TRUE(append());
  EXPECT_EQ(t.live_bytes(), settled_size + align_up((parts_unmerged + 1) * part_bytes));
  EXPECT_TRUE(*t.get("b", "k") == first + parts(0, parts_unmerged + 1));
}

}  // namespace
}  // namespace verbena::store::local
