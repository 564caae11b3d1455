// Items of a read batch: what is read ahead, and where a listing ends.
#include "native/item_source.h"

#include <gtest/gtest.h>

namespace verbena::native {
namespace {

class ItemSourceTest : public testing::Test {
 protected:
  // A GET_MANY of these items of one bucket.
  void open(const std::vector<wire::BatchItem>& items) {
    std::vector<std::byte> body(64 * KiB);
    wire::Writer out{MutableBytes(body)};
    wire::BatchWriter writer(out, wire::Type::get_many);
    wire::BatchHead head;
    head.inline_max = 4096;
    head.buckets.add("bucket");
    ASSERT_TRUE(writer.begin(head));
    for (const wire::BatchItem& item : items) ASSERT_TRUE(writer.add(item));
    writer.finish();
    op_.header.type = static_cast<uint8_t>(wire::Type::get_many);
    ASSERT_TRUE(source_.open(op_, Bytes(body).first(out.size())));
  }
  void open_listing(const std::vector<uint64_t>& sizes, uint64_t window_size) {
    auto listed = std::make_shared<store::ListedObjects>();
    for (const uint64_t size : sizes)
      listed->add("key" + std::to_string(listed->size() + 1), {.size = size, .etag = {}});
    op_.header.type = static_cast<uint8_t>(wire::Type::list_values);
    op_.bucket = "bucket";
    op_.window.size = window_size;
    op_.value_size_max = 100;
    source_.open_listing(op_, std::move(listed), false);
  }
  std::string next() {
    source_.next(slot_);
    source_.fill_request(slot_);
    EXPECT_EQ(slot_.request.bucket, "bucket");
    return slot_.request.key;
  }
  static wire::BatchItem item(std::string_view key) {
    wire::BatchItem made;
    made.key = key;
    return made;
  }
  static wire::BatchItem of_version(std::string_view key) {
    wire::BatchItem made = item(key);
    made.fields = wire::field_version;
    made.version = "v1";
    return made;
  }
  Op op_;
  ItemSource source_;
  ReadSlot slot_;
};

TEST_F(ItemSourceTest, AGroupEndsBeforeAnItemThatSaysMoreAndNoneIsLost) {
  open({item("a"), item("b"), item("c"), of_version("d"), item("e")});
  EXPECT_EQ(source_.left(), 5u);
  ASSERT_TRUE(source_.may_group());
  const auto group = source_.group();
  ASSERT_EQ(group.size(), 3u);
  EXPECT_EQ(group[2].key, "c");
  EXPECT_EQ(source_.left(), 5u);
  source_.skip(1);
  EXPECT_FALSE(source_.may_group());
  EXPECT_EQ(next(), "b");
  EXPECT_TRUE(source_.is_plain());
  EXPECT_EQ(next(), "c");
  EXPECT_FALSE(source_.may_group());
  EXPECT_EQ(next(), "d");
  EXPECT_FALSE(source_.is_plain());
  EXPECT_EQ(slot_.request.version_id, "v1");
  EXPECT_TRUE(source_.may_group());
  EXPECT_EQ(source_.left(), 1u);
  EXPECT_EQ(next(), "e");
  EXPECT_TRUE(slot_.request.version_id.empty());
  EXPECT_FALSE(source_.has_next());
}

TEST_F(ItemSourceTest, AGroupTakesNoMoreThanItHasRoomFor) {
  std::vector<std::string> keys;
  for (char c = 'a'; c < 'd'; ++c) keys.push_back(std::string(wire::key_size_max, c));
  open({item(keys[0]), item(keys[1]), item(keys[2])});
  EXPECT_EQ(source_.group().size(), 2u);
  for (const std::string& key : keys) EXPECT_EQ(next(), key);
  EXPECT_FALSE(source_.has_next());
}

TEST_F(ItemSourceTest, NoItemIsPlainWhereEachIsLogged) {
  call::Observed observed;
  op_.caller.observed = &observed;
  open({item("a")});
  EXPECT_FALSE(source_.may_group());
  EXPECT_EQ(next(), "a");
  EXPECT_FALSE(source_.is_plain());
}

TEST_F(ItemSourceTest, ARecycledSlotKeepsNothingOfTheItemBefore) {
  wire::BatchItem first = of_version("a");
  first.fields |= wire::field_range | wire::field_if_match;
  first.range = {5, 10};
  first.if_match = "etag";
  open({first, item("b")});
  next();
  EXPECT_EQ(slot_.request.preconditions.if_match.size(), 1u);
  slot_.code = Errc::invalid_range;
  slot_.length = 5;
  slot_.in_reply = slot_.charged = slot_.partial = true;
  next();
  EXPECT_TRUE(slot_.request.preconditions.if_match.empty());
  EXPECT_FALSE(slot_.request.range);
  EXPECT_TRUE(slot_.request.version_id.empty());
  EXPECT_EQ(slot_.code, Errc::ok);
  EXPECT_EQ(slot_.length, 0u);
  EXPECT_FALSE(slot_.in_reply || slot_.charged || slot_.partial);
}

TEST_F(ItemSourceTest, AListingPutsValuesSideBySideAndEndsWhereTheWindowIsFull) {
  open_listing({40, 101, 50, 20}, 100);
  EXPECT_FALSE(source_.may_group());
  EXPECT_EQ(next(), "key1");
  EXPECT_EQ(slot_.place.offset, 0u);
  EXPECT_EQ(next(), "key2");
  EXPECT_TRUE(slot_.listed_alone);  // longer than values may be
  EXPECT_EQ(slot_.info.size, 101u);
  EXPECT_EQ(next(), "key3");
  EXPECT_FALSE(slot_.listed_alone);
  EXPECT_EQ(slot_.place.offset, 40u);
  EXPECT_EQ(slot_.place.size, 50u);
  EXPECT_EQ(source_.left(), 1u);
  EXPECT_FALSE(source_.has_next());
  EXPECT_TRUE(source_.has_more_than(3));
  EXPECT_FALSE(source_.has_more_than(4));
}

}  // namespace
}  // namespace verbena::native
