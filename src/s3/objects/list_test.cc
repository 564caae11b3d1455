#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

#include "base/bytes.h"
#include "base/date.h"
#include "memory/budget.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class Lists : public Rig {
 protected:
  void SetUp() override { make_bucket(); }
  void fill() {
    for (const char* key : {"a", "b/1", "b/2", "b/c/3", "d", "e/1"}) put(key, key);
  }
};

std::string encoded(std::string_view token) {
  std::string out;
  for (const char c : token) out += c == '+' ? "%2B" : c == '=' ? "%3D" : c == '/' ? "%2F" : std::string(1, c);
  return out;
}

// MinIO's, which its clients ask for instead of a HEAD per object.
TEST_F(Lists, MetadataIsListedToWhoMayReadIt) {
  put("k", "text",
      {{"content-type", "a/b"}, {"x-amz-meta-my-key", "v&w"}, {"x-amz-meta-odd!", "x"}, {"x-amz-tagging", "t=1"}});
  EXPECT_EQ(call("GET", "/bucket?list-type=2").count("UserMetadata"), 0u);
  for (const char* listing : {"list-type=2&metadata=true", "metadata=true", "versions&metadata=true"}) {
    const Reply r = call("GET", std::string("/bucket?") + listing);
    EXPECT_EQ(r.element("X-Amz-Meta-My-Key"), "v&amp;w") << listing;
    EXPECT_EQ(r.element("content-type"), "a/b") << listing;
    EXPECT_EQ(r.element("UserTags"), "t=1") << listing;
    EXPECT_EQ(r.count("odd!"), 0u) << "no name of an element";
  }
  ASSERT_EQ(call("PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}).status, 200);
  TestCall anonymous{.target = "/bucket?list-type=2&metadata=true", .anonymous = true};
  const Reply r = call(anonymous);
  EXPECT_EQ(r.element("Key"), "k");
  EXPECT_EQ(r.count("UserMetadata") + r.count("UserTags"), 0u) << "may list, may not read";
}

// Another task on the same core.
Task<bool> count_turns(const bool& over, int& turns) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (; !over; ++turns) {
    timer.expires_after(std::chrono::microseconds(0));
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
  co_return true;
}

// A policy whose patterns match nothing and take long to find that out.
std::string costly_policy() {
  std::string resources;
  for (int i = 0; i < 20; ++i) {
    resources += R"("arn:aws:s3:::bucket/*)";
    for (int j = 0; j < 30; ++j) resources += "a?";
    resources += "b" + std::to_string(i) + "\",";
  }
  resources.pop_back();
  return R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":[)" +
         resources + "]}}";
}

// Each entry is authorized. One listing with metadata held its core for as long as the bucket's owner liked: 40
// seconds were seen, after which a service manager ends a server that gives no sign.
TEST_F(Lists, ACostlyPolicyLeavesOthersTheirTurnsInAListingWithMetadata) {
  constexpr int entries = 30;
  for (int i = 0; i < entries; ++i) put(std::string(900, 'a') + std::to_string(1000 + i), "x");
  ASSERT_EQ(call("PUT", "/bucket?policy", {}, costly_policy()).status, 204);
  for (const char* listing : {"list-type=2&metadata=true", "metadata=true", "versions&metadata=true"}) {
    bool over = false;
    int turns = 0;
    when_answered = [&] { over = true; };
    boost::asio::co_spawn(io, count_turns(over, turns), boost::asio::detached);
    EXPECT_EQ(call("GET", std::string("/bucket?") + listing).count("<Key>"), size_t{entries}) << listing;
    EXPECT_GT(turns, entries / 5) << listing;
  }
}

TEST_F(Lists, ACostlyPolicyLeavesOthersTheirTurnsInADeletionOfMany) {
  std::string keys;
  for (int i = 0; i < 60; ++i) {
    keys += "<Object><Key>" + std::string(900, 'a') + std::to_string(i) + "</Key></Object>";
  }
  ASSERT_EQ(call("PUT", "/bucket?policy", {}, costly_policy()).status, 204);
  bool over = false;
  int turns = 0;
  when_answered = [&] { over = true; };
  boost::asio::co_spawn(io, count_turns(over, turns), boost::asio::detached);
  const std::string body = "<Delete>" + keys + "</Delete>";
  Digest md5(Algorithm::md5);
  md5.update(as_bytes(body));
  EXPECT_EQ(call("POST", "/bucket?delete", {{"content-md5", md5.finish_base64()}}, body).status, 200);
  EXPECT_GT(turns, 12);
}

// Answers are whole before they are sent: those of a client that takes none added up without end.
TEST_F(Lists, APageIsChargedToItsClientUntilItIsSent) {
  put("k", "x");
  const size_t before = arena->budget().charged_bytes();
  size_t held = 0;
  when_answered = [&] { held = arena->budget().charged_bytes() - before; };
  EXPECT_EQ(call("GET", "/bucket?list-type=2&max-keys=500").status, 200);
  EXPECT_GE(held, 500 * KiB);
  EXPECT_EQ(arena->budget().charged_bytes(), before);
}

TEST_F(Lists, V2ListsKeysInOrder) {
  fill();
  const Reply r = call("GET", "/bucket?list-type=2");
  ASSERT_EQ(r.status, 200);
  EXPECT_EQ(r.count("<Contents>"), 6u);
  EXPECT_EQ(r.element("Key"), "a");
  EXPECT_EQ(r.element("KeyCount"), "6");
  EXPECT_EQ(r.element("IsTruncated"), "false");
  EXPECT_EQ(r.element("MaxKeys"), "1000");
  EXPECT_EQ(r.element("ETag"), "&quot;" + hex_md5("a") + "&quot;");
  EXPECT_EQ(r.count("<Owner>"), 0u);
  EXPECT_EQ(call("GET", "/bucket?list-type=2&fetch-owner=true").count("<Owner>"), 6u);
}

TEST_F(Lists, DelimiterRollsUpPrefixes) {
  fill();
  Reply r = call("GET", "/bucket?list-type=2&delimiter=%2F");
  EXPECT_EQ(r.count("<Contents>"), 2u);
  EXPECT_EQ(r.count("<CommonPrefixes>"), 2u);
  EXPECT_EQ(r.element("KeyCount"), "4");
  r = call("GET", "/bucket?list-type=2&delimiter=%2F&prefix=b%2F");
  EXPECT_EQ(r.count("<Contents>"), 2u);
  EXPECT_EQ(r.count("<CommonPrefixes>"), 1u);
  EXPECT_NE(r.body.find("<Prefix>b/c/</Prefix>"), std::string::npos);
}

TEST_F(Lists, V2PagesMeetEveryEntryOnce) {
  fill();
  for (const char* delimiter : {"", "&delimiter=/"}) {
    for (int page_size = 1; page_size <= 7; ++page_size) {
      std::string token;
      size_t seen = 0;
      for (int page = 0; page < 10; ++page) {
        const Reply r = call("GET", fmt::format("/bucket?list-type=2&max-keys={}{}{}", page_size, delimiter,
                                                token.empty() ? "" : "&continuation-token=" + encoded(token)));
        ASSERT_EQ(r.status, 200);
        seen += r.count("<Contents>") + r.count("<CommonPrefixes>");
        if (r.element("IsTruncated") == "false") break;
        token = r.element("NextContinuationToken");
      }
      EXPECT_EQ(seen, *delimiter == 0 ? 6u : 4u) << page_size << delimiter;
    }
  }
}

TEST_F(Lists, StartAfterSkips) {
  fill();
  EXPECT_EQ(call("GET", "/bucket?list-type=2&start-after=b/2").element("Key"), "b/c/3");
  EXPECT_EQ(call("GET", "/bucket?list-type=2&start-after=b/2").element("StartAfter"), "b/2");
}

TEST_F(Lists, V1PagesByMarker) {
  fill();
  Reply r = call("GET", "/bucket?max-keys=2");
  EXPECT_EQ(r.element("IsTruncated"), "true");
  EXPECT_EQ(r.element("NextMarker"), "(none)");
  EXPECT_EQ(r.count("<Owner>"), 2u);
  r = call("GET", "/bucket?marker=b/1&max-keys=2");
  EXPECT_EQ(r.element("Key"), "b/2");
  EXPECT_EQ(r.element("Marker"), "b/1");
  r = call("GET", "/bucket?delimiter=/&max-keys=2");
  EXPECT_EQ(r.element("NextMarker"), "b/");
  r = call("GET", "/bucket?delimiter=/&max-keys=2&marker=b/");
  EXPECT_EQ(r.element("Key"), "d");
  EXPECT_EQ(r.element("IsTruncated"), "false");
}

TEST_F(Lists, MaxKeysIsBounded) {
  fill();
  Reply r = call("GET", "/bucket?list-type=2&max-keys=0");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.element("KeyCount"), "0");
  EXPECT_EQ(r.element("IsTruncated"), "false");
  EXPECT_EQ(call("GET", "/bucket?list-type=2&max-keys=5000").element("MaxKeys"), "1000");
  for (const char* bad : {"-1", "x", "99999999999", "1.5"}) {
    EXPECT_EQ(call("GET", std::string("/bucket?list-type=2&max-keys=") + bad).code, "InvalidArgument") << bad;
  }
  EXPECT_EQ(call("GET", "/none?max-keys=0").code, "NoSuchBucket");
  EXPECT_EQ(call("GET", "/bucket?list-type=3").code, "InvalidArgument");
  EXPECT_EQ(call("GET", "/bucket?list-type=2&continuation-token=!!").code, "InvalidArgument");
  EXPECT_EQ(call("GET", "/bucket?list-type=2&continuation-token=").status, 200);
  EXPECT_EQ(call("GET", "/bucket?list-type=2&encoding-type=rot13").code, "InvalidArgument");
}

TEST_F(Lists, OddKeysSurviveUrlEncoding) {
  put("sp%20ace+plus%01%0A%C3%A9%26", "x");
  Reply r = call("GET", "/bucket?list-type=2&encoding-type=url&prefix=sp%20");
  EXPECT_EQ(r.element("Key"), "sp%20ace%2Bplus%01%0A%C3%A9%26");
  EXPECT_EQ(r.element("Prefix"), "sp%20");
  EXPECT_EQ(r.element("EncodingType"), "url");
  r = call("GET", "/bucket?list-type=2");
  EXPECT_EQ(r.element("Key"), "sp ace+plus&#x1;&#xa;\xc3\xa9&amp;");
}

TEST_F(Lists, EachEntryHasItsOwnTimeAndTextInAPageOfMany) {
  std::map<std::string, std::string> modified;  // by key
  for (int i = 0; i < 60; ++i) {
    const std::string key = (i % 2 == 0 ? "k" : std::string(300, 'l')) + std::to_string(i + 100);
    put(key, std::string(static_cast<size_t>(i), 'x'));
    const auto info = run(store.stat("bucket", key, ""));
    ASSERT_TRUE(info);
    modified[key] = format_iso8601(info->modified_us);
  }
  const std::string body = call("GET", "/bucket?list-type=2").body;
  for (const auto& [key, time] : modified) {
    EXPECT_NE(body.find("<Contents><Key>" + key + "</Key><LastModified>" + time + "</LastModified><ETag>&quot;"),
              std::string::npos)
        << key;
  }
}

TEST_F(Lists, ChecksumsAreNamed) {
  put("k", "x", {{"x-amz-checksum-sha256", base64_digest(Algorithm::sha256, "x")}});
  EXPECT_EQ(call("GET", "/bucket?list-type=2").element("ChecksumAlgorithm"), "SHA256");
}

}  // namespace
}  // namespace verbena::s3::test
