// Names, dates, ranges, queries, addresses, entity tags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/names.h"
#include "s3/objects/conditions.h"
#include "s3/objects/range.h"
#include "s3_http/address.h"
#include "s3_http/query.h"

namespace verbena::s3 {
namespace {

using ::testing::ElementsAre;

TEST(Names, GoodBucketNamesPass) {
  for (const char* name : {"abc", "a-b", "my.bucket.name", "0numbers9", "1.2.3", "a1.2.3.4"}) {
    EXPECT_TRUE(check_bucket_name(name)) << name;
  }
  EXPECT_TRUE(check_bucket_name(std::string(63, 'a')));
}

TEST(Names, BadBucketNamesFail) {
  for (const char* name : {"",
                           "ab",
                           "Abc",
                           "a_b",
                           "-abc",
                           "abc-",
                           ".abc",
                           "abc.",
                           "a..b",
                           "a.-b",
                           "a-.b",
                           "192.168.0.1",
                           "xn--abc",
                           "sthree-x",
                           "amzn-s3-demo-x",
                           "abc-s3alias",
                           "abc--ol-s3",
                           "abc.mrap",
                           "abc--x-s3",
                           "a b",
                           "a/b",
                           "b\xc3\xa9"
                           "b"}) {
    const auto checked = check_bucket_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error(), Errc::invalid_bucket_name);
  }
  EXPECT_FALSE(check_bucket_name(std::string(64, 'a')));
}

TEST(Names, KeysAreUpTo1024BytesOfUtf8) {
  EXPECT_TRUE(check_key(std::string(1024, 'k')));
  EXPECT_EQ(check_key(std::string(1025, 'k')).error(), Errc::key_too_long);
  EXPECT_EQ(check_key("").error(), Errc::invalid_argument);
  EXPECT_EQ(check_new_key(std::string("a\0b", 3)).error(), Errc::invalid_argument) << "no XML could list it";
  EXPECT_TRUE(check_new_key("\x01"));
  EXPECT_TRUE(check_key("\x01\x7f\n caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xbf"));
  for (const char* bad : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "a\x80",
                          "\xf8\x88\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(check_key(bad).error(), Errc::invalid_uri);
    // Behind and before whole words of ASCII.
    for (size_t before = 1; before < 20; ++before) {
      EXPECT_EQ(check_key(std::string(before, 'k') + bad).error(), Errc::invalid_uri) << before;
      EXPECT_EQ(check_key(std::string(before, 'k') + bad + std::string(9, 'k')).error(), Errc::invalid_uri) << before;
    }
  }
}

TEST(Range, ReadsTheThreeShapes) {
  auto range = parse_range("bytes=0-99");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 0u);
  EXPECT_EQ(range->last, 99u);
  range = parse_range("bytes=5-");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5u);
  EXPECT_FALSE(range->last);
  range = parse_range("Bytes= -7");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->suffix, 7u);
}

TEST(Range, IgnoresWhatIsNotOneRange) {
  for (const char* bad : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1-2,4-5", "items=1-2", "bytes=9-1",
                          "bytes=1--2", "bytes=+1-2", "bytes=1-2x", "bytes 1-2"}) {
    EXPECT_FALSE(parse_range(bad)) << bad;
  }
}

TEST(Range, ResolvesAgainstTheSize) {
  const auto resolve = [](const char* text, uint64_t size) { return resolve_range(*parse_range(text), size); };
  EXPECT_EQ(resolve("bytes=0-0", 10)->length, 1u);
  EXPECT_EQ(resolve("bytes=2-100", 10)->length, 8u);
  EXPECT_EQ(resolve("bytes=-3", 10)->offset, 7u);
  EXPECT_EQ(resolve("bytes=-30", 10)->length, 10u);
  EXPECT_EQ(resolve("bytes=10-", 10).error(), Errc::invalid_range);
  EXPECT_EQ(resolve("bytes=-0", 10).error(), Errc::invalid_range);
  EXPECT_EQ(resolve("bytes=0-", 0).error(), Errc::invalid_range);
  EXPECT_EQ(resolve("bytes=-1", 0).error(), Errc::invalid_range);
  EXPECT_EQ(resolve("bytes=1-99999999999999999999999999", 10)->length, 9u);
  EXPECT_EQ(resolve("bytes=99999999999999999999999999-", 10).error(), Errc::invalid_range);
  // A native request may hold any combination.
  EXPECT_EQ(resolve_range(ByteRange{}, 10).error(), Errc::invalid_range);
  EXPECT_EQ(resolve_range(ByteRange{5, 2, {}}, 10).error(), Errc::invalid_range);
}

TEST(Query, DecodesNamesAndValues) {
  const auto query = Query::parse("prefix=a%2Fb+c&uploads&&x=%2B&x=2&=v");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->get("prefix"), "a/b c");
  EXPECT_EQ(query->get("uploads"), "");
  EXPECT_EQ(query->get("x"), "+");
  EXPECT_FALSE(query->has("y"));
  for (const char* broken : {"a=%zz", "a=%", "a=%1", "a=b%2", "%=b", "a&%4"}) {
    EXPECT_EQ(Query::parse(broken).error(), Errc::invalid_uri) << broken;
  }
  EXPECT_EQ(Query::parse("a=%41%2b%20+").value().get("a"), "A+  ");
  std::string many;
  for (int i = 0; i < 300; ++i) many += "a&";
  EXPECT_EQ(Query::parse(many).error(), Errc::invalid_request);
}

TEST(Query, APasswordIsWiped) {
  for (const std::string& password : {std::string("short"), std::string(100, 'p')}) {
    Query query = Query::parse("name=alice&password=" + password).value();
    const std::string_view value = *query.get("password");
    EXPECT_EQ(value, password);
    query.wipe_values();
    EXPECT_EQ(value, std::string(password.size(), '\0')) << "what lay there, which the query holds still";
    EXPECT_EQ(query.get("password"), "");
  }
}

TEST(Query, NumbersAreBounded) {
  const auto query = Query::parse("a=5&b=-1&c=5x&d=99999999999999999999&e=&f=1001");
  EXPECT_EQ(query->number("a", 0, 1000, 7, "").value(), 5);
  EXPECT_EQ(query->number("missing", 0, 1000, 7, "").value(), 7);
  EXPECT_EQ(query->number("e", 0, 1000, 7, "").value(), 7);
  for (const char* bad : {"b", "c", "d", "f"}) {
    EXPECT_EQ(query->number(bad, 0, 1000, 7, "").error(), Errc::invalid_argument) << bad;
  }
}

TEST(Address, PathStyleDecodesOnceAndKeepsPlus) {
  auto a = resolve_address("127.0.0.1", "/bucket/a%20b+c%2Bd%252F//e", "");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->bucket, "bucket");
  EXPECT_EQ(a->key, "a b+c+d%2F//e");
  EXPECT_EQ(resolve_address("h", "/bucket/", "")->key, "");
  EXPECT_EQ(resolve_address("h", "/bucket//k", "")->key, "/k");
  EXPECT_EQ(resolve_address("h", "/", "")->bucket, "");
  EXPECT_EQ(resolve_address("h", "//k", "").error(), Errc::invalid_uri);
  EXPECT_EQ(resolve_address("h", "/b/%4", "").error(), Errc::invalid_uri);
  EXPECT_EQ(resolve_address("h", "*", "").error(), Errc::invalid_uri);
}

TEST(Address, VirtualHostNamesTheBucket) {
  auto a = resolve_address("my.photos.s3.example.org", "/2026/a.jpg", "s3.example.org");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->bucket, "my.photos");
  EXPECT_EQ(a->key, "2026/a.jpg");
  EXPECT_EQ(resolve_address("s3.example.org", "/b/k", "s3.example.org")->bucket, "b");
  EXPECT_EQ(resolve_address("bucket.localhost", "/k", "")->bucket, "bucket");
  EXPECT_EQ(resolve_address("localhost", "/b/k", "")->bucket, "b");
  EXPECT_EQ(resolve_address("evils3.example.org", "/b/k", "s3.example.org")->bucket, "b");
}

TEST(Conditions, EntityTagListsAreRead) {
  EXPECT_THAT(parse_etag_list("\"a\", W/\"b,c\" ,d"), ElementsAre("a", "W/b,c", "d"));
  EXPECT_THAT(parse_etag_list("*"), ElementsAre("*"));
  EXPECT_THAT(parse_etag_list("\"open"), ElementsAre("open"));
  EXPECT_THAT(parse_etag_list(",, ,"), ElementsAre());
  EXPECT_THAT(parse_etag_list("\"\""), ElementsAre(""));
}

struct ConditionCase {
  const char* name;
  Preconditions conditions;
  Errc outcome;  // ok: met
};

TEST(Conditions, FollowTheOrderOfRfc9110) {
  store::ObjectInfo info;
  info.etag = "tag";
  info.modified_us = 1'000'000'900'000;  // second 1,000,000
  const int64_t t = 1'000'000;
  const std::vector<ConditionCase> cases = {
      {"none", {}, Errc::ok},
      {"if-match holds", {{"tag"}, {}, {}, {}, {}}, Errc::ok},
      {"if-match any", {{"*"}, {}, {}, {}, {}}, Errc::ok},
      {"if-match fails", {{"x"}, {}, {}, {}, {}}, Errc::precondition_failed},
      {"if-match compares strongly", {{"W/tag"}, {}, {}, {}, {}}, Errc::precondition_failed},
      {"if-match list", {{"x", "tag"}, {}, {}, {}, {}}, Errc::ok},
      {"unmodified holds in the same second", {{}, {}, {}, t, {}}, Errc::ok},
      {"unmodified fails", {{}, {}, {}, t - 1, {}}, Errc::precondition_failed},
      {"if-match beats unmodified", {{"tag"}, {}, {}, t - 1, {}}, Errc::ok},
      {"if-none-match matches", {{}, {"tag"}, {}, {}, {}}, Errc::not_modified},
      {"if-none-match compares weakly", {{}, {"W/tag"}, {}, {}, {}}, Errc::not_modified},
      {"if-none-match other", {{}, {"x"}, {}, {}, {}}, Errc::ok},
      {"modified since: no", {{}, {}, t, {}, {}}, Errc::not_modified},
      {"modified since: yes", {{}, {}, t - 1, {}, {}}, Errc::ok},
      {"if-none-match beats modified since", {{}, {"x"}, t, {}, {}}, Errc::ok},
      {"if-match fails before if-none-match", {{"x"}, {"tag"}, {}, {}, {}}, Errc::precondition_failed},
  };
  for (const auto& c : cases) {
    const auto checked = check_preconditions(c.conditions, info);
    EXPECT_EQ(checked ? Errc::ok : checked.error().code, c.outcome) << c.name;
  }
}

}  // namespace
}  // namespace verbena::s3
