// Listings with values at the door.
#include "native/wire/list_values.h"

#include "native/test_batches.h"

namespace verbena::native {
namespace {

class ListValuesTest : public BatchTest {
 protected:
  struct Page {
    std::optional<Errc> refused;
    bool more = false;
    std::vector<std::string> keys;
    std::vector<wire::BatchEntry> entries;
    std::vector<uint64_t> offsets;
    std::vector<std::byte> body;
  };
  Page list(wire::ListValues request) {
    request.bucket = "bucket";
    request.details = wire::detail_etag | wire::detail_size;
    if (request.window.size == 0 && with_window_) request.window = {0, memory_.size(), 1};
    deliver(peer_, peer_.seal(wire::Type::list_values, ++request_, request));
    Page page;
    page.body = reply_body(peer_);
    page.refused = wire::decode_error(page.body);
    if (page.refused != Errc::ok) return page;
    auto reader = wire::ValueReader::open(page.body);
    EXPECT_TRUE(reader);
    page.more = reader->more();
    wire::ValueEntry value;
    while (reader->left() != 0 && reader->next(value)) {
      page.keys.emplace_back(value.key);
      page.entries.push_back(value.entry);
      page.offsets.push_back(value.offset);
    }
    EXPECT_TRUE(reader->complete());
    return page;
  }
  bool with_window_ = true;
};

TEST_F(ListValuesTest, APrefixOfSmallObjectsComesInOneAnswer) {
  for (const bool immediate : {true, false}) {
    for (const bool hot : {true, false}) {
      immediate_ = immediate;
      store_.clear("bucket");
      for (int i = 0; i < 100; ++i) {
        store_.put("bucket", fmt::format("p/{:03}", i),
                   std::string(static_cast<size_t>(i), static_cast<char>('a' + i % 26)));
      }
      store_.put("bucket", "p/large", std::string(5000, 'L'));
      store_.put("bucket", "q", "not of the prefix");
      make_hot();
      if (!hot) store_.is_hot = nullptr;
      std::ranges::fill(memory_, std::byte{0});
      const Page page = list({.window = {}, .value_size_max = 1000, .bucket = {}, .prefix = "p/", .after = {}});
      ASSERT_EQ(page.keys.size(), 101u);
      EXPECT_FALSE(page.more);
      uint64_t at = 0;
      for (size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(page.keys[i], fmt::format("p/{:03}", i));
        EXPECT_EQ(page.entries[i].length, i);
        EXPECT_EQ(page.offsets[i], at);
        EXPECT_EQ(memory(at, i), std::string(i, static_cast<char>('a' + i % 26)));
        at += i;
      }
      EXPECT_EQ(page.keys[100], "p/large");
      EXPECT_TRUE(page.entries[100].listed_alone);
      EXPECT_EQ(page.entries[100].object_size, 5000u);
      EXPECT_EQ(memory(at, 1), std::string_view("\0", 1)) << "nothing behind the values";
      EXPECT_EQ(door_->in_flight(), 0u);
    }
  }
}

TEST_F(ListValuesTest, APageEndsWhereTheWindowDoesAndTheNextGoesOn) {
  for (int i = 0; i < 20; ++i) store_.put("bucket", fmt::format("k{:02}", i), std::string(100, 'x'));
  std::string after;
  std::vector<std::string> keys;
  for (int pages = 0; pages < 10; ++pages) {
    const Page page = list({.window = {0, 350, 1}, .value_size_max = 1000, .bucket = {}, .prefix = {}, .after = after});
    EXPECT_EQ(page.keys.size(), pages < 6 ? 3u : 2u);
    keys.insert(keys.end(), page.keys.begin(), page.keys.end());
    if (!page.more) break;
    after = keys.back();
  }
  EXPECT_EQ(keys.size(), 20u);
  // A value too large for any window of this size does not stop the listing.
  store_.put("bucket", "k00", std::string(400, 'y'));
  const Page page = list({.window = {0, 350, 1}, .value_size_max = 1000, .bucket = {}, .prefix = {}, .after = {}});
  ASSERT_EQ(page.keys.size(), 4u);
  EXPECT_TRUE(page.entries[0].listed_alone);
}

TEST_F(ListValuesTest, WithoutAWindowTheNamesCome) {
  with_window_ = false;
  store_.put("bucket", "a", "bytes");
  store_.put("bucket", "b", "");
  const Page page = list({.window = {}, .value_size_max = 1000, .bucket = {}, .prefix = {}, .after = {}});
  ASSERT_EQ(page.keys.size(), 2u);
  EXPECT_TRUE(page.entries[0].listed_alone);
  EXPECT_FALSE(page.entries[1].listed_alone) << "no bytes need no window";
}

TEST_F(ListValuesTest, APageEndsWhereTheReplyDoes) {
  for (int i = 0; i < 300; ++i) {
    const std::string key = fmt::format("{:03}", i) + std::string(500, 'k');
    store_.put("bucket", key, "v");
  }
  size_t keys = 0, pages = 0;
  std::string after;
  for (bool more = true; more && pages < 20; ++pages) {
    const Page page = list({.window = {}, .value_size_max = 10, .bucket = {}, .prefix = {}, .after = after});
    ASSERT_FALSE(page.keys.empty());
    keys += page.keys.size();
    after = page.keys.back();
    more = page.more;
  }
  EXPECT_EQ(keys, 300u);
  EXPECT_GT(pages, 1u);
}

TEST_F(ListValuesTest, WhoMayListAndNotReadGetsTheNamesAlone) {
  small_objects(3);
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/k0001")");
  const Page page = list({.window = {}, .value_size_max = 10, .bucket = {}, .prefix = {}, .after = {}});
  ASSERT_EQ(page.keys.size(), 3u);
  EXPECT_EQ(page.entries[0].code, Errc::ok);
  EXPECT_EQ(page.entries[1].code, Errc::access_denied);
  EXPECT_EQ(page.entries[2].code, Errc::ok);
  EXPECT_EQ(memory(0, 1), "x");
  deny(R"("Action":"s3:ListBucket","Resource":"arn:aws:s3:::bucket")");
  EXPECT_EQ(list({.window = {}, .value_size_max = 10, .bucket = {}, .prefix = {}, .after = {}}).refused,
            Errc::access_denied);
}

TEST_F(ListValuesTest, OnlySoManyKeepTheirPagesAtOnce) {
  store_.put("bucket", "a", "bytes");
  const wire::ListValues request{.window = {}, .bucket = "bucket", .prefix = {}, .after = {}};
  for (uint64_t i = 0; i < 5; ++i) port_.receive(peer_.id, peer_.seal(wire::Type::list_values, 100 + i, request));
  run();
  ASSERT_EQ(port_.sent.size(), 5u);
  uint64_t which = 0;
  EXPECT_EQ(wire::decode_error(reply_body(peer_, &which)), Errc::slow_down);
  EXPECT_EQ(which, 104u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reply_code(peer_), Errc::ok);
  EXPECT_EQ(list({.window = {}, .bucket = {}, .prefix = {}, .after = {}}).keys.size(), 1u)
      << "the places are free again";
}

TEST_F(ListValuesTest, ASessionOfVersionOneKnowsNone) {
  peer_ = hello(2);
  const uint64_t before = dropped("bad_type");
  deliver(peer_, peer_.seal(wire::Type::list_values, 2,
                            wire::ListValues{.window = {}, .bucket = "bucket", .prefix = {}, .after = {}}));
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(dropped("bad_type"), before + 1);
}

TEST_F(ListValuesTest, WhatIsMalformedIsRefused) {
  std::vector<std::byte> body(100);
  wire::Writer out(body);
  ASSERT_TRUE(encode(out, wire::ListValues{.window = {}, .bucket = "bucket", .prefix = {}, .after = {}}));
  for (const size_t size : {size_t{0}, out.size() - 1, out.size() + 1}) {
    deliver(peer_, peer_.seal(wire::Type::list_values, ++request_, Bytes(body).first(size)));
    EXPECT_EQ(reply_code(peer_), Errc::invalid_request) << size;
  }
}

}  // namespace
}  // namespace verbena::native
