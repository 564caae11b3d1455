#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <chrono>
#include <map>
#include <semaphore>
#include <thread>

#include "base/date.h"
#include "s3/documents/lifecycle.h"
#include "s3/workers/lifecycle_worker.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

constexpr int64_t second_us = 1'000'000, day_s = 86'400, day_us = day_s * second_us;

std::string rule(const std::string& inside) {
  return "<LifecycleConfiguration><Rule><Status>Enabled</Status>" + inside + "</Rule></LifecycleConfiguration>";
}

TEST(LifecycleRules, ComeBackAsTheyWere) {
  const std::string text = rule(
      "<ID>a</ID><Filter><And><Prefix>p&amp;/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>"
      "<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></And></Filter><Expiration><Days>3</Days></Expiration>");
  const auto rules = parse_lifecycle(text);
  ASSERT_TRUE(rules);
  const auto again = parse_lifecycle(lifecycle_xml(*rules));
  ASSERT_TRUE(again);
  const LifecycleRule& r = again->front();
  EXPECT_EQ(r.id, "a");
  EXPECT_TRUE(r.enabled);
  EXPECT_EQ(r.filter.prefix, "p&/");
  EXPECT_EQ(r.filter.tags, (store::Tags{{"k", "v"}}));
  EXPECT_EQ(r.filter.size_above, 1u);
  EXPECT_EQ(r.days, 3u);
}

TEST(LifecycleRules, ConditionsWithoutAnAndAreJoined) {
  const auto rules = parse_lifecycle(
      rule("<Filter><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><And><Prefix>p/q</Prefix>"
           "<ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter><Expiration><Days>3</Days></Expiration>"));
  ASSERT_TRUE(rules);
  store::ObjectInfo info;
  info.tags = {{"k", "v"}};
  EXPECT_TRUE(rules->front().applies("p/q1", info));
  EXPECT_FALSE(rules->front().applies("p/1", info));
  info.size = 9;
  EXPECT_FALSE(rules->front().applies("p/q1", info));
  EXPECT_FALSE(rules->front().applies("p/q1", {}));
}

TEST(LifecycleRules, WhatIsNoConfigurationIsRefused) {
  const std::string days = "<Expiration><Days>1</Days></Expiration>";
  const std::pair<std::string, Errc> cases[] = {
      {"<LifecycleConfiguration/>", Errc::malformed_xml},
      {"<Other/>", Errc::malformed_xml},
      {rule(days), Errc::malformed_xml},  // neither Prefix nor Filter
      {rule("<Prefix/><Filter/>" + days), Errc::malformed_xml},
      {rule("<Filter><Prefix>a</Prefix><And><Prefix>b</Prefix><Tag><Key>k</Key><Value/></Tag></And></Filter>" + days),
       Errc::malformed_xml},
      {rule("<Filter><And><And/><Prefix>b</Prefix></And></Filter>" + days), Errc::malformed_xml},
      {rule("<Filter><And><Prefix>a</Prefix></And></Filter>" + days), Errc::malformed_xml},
      {rule("<Filter/>"), Errc::invalid_request},
      {rule("<Filter/><Expiration/>"), Errc::malformed_xml},
      {rule("<Filter/><Expiration><Days>x</Days></Expiration>"), Errc::malformed_xml},
      {rule("<Filter/><Expiration><Days>0</Days></Expiration>"), Errc::invalid_argument},
      {rule("<Filter/><Expiration><Days>-1</Days></Expiration>"), Errc::invalid_argument},
      {rule("<Filter/><Expiration><Days>99999999999</Days></Expiration>"), Errc::malformed_xml},
      {rule("<Filter/><Expiration><Date>20200101</Date></Expiration>"), Errc::malformed_xml},
      {rule("<Filter/><Expiration><Date>2020-01-01T01:00:00Z</Date></Expiration>"), Errc::invalid_argument},
      {rule("<Filter/><Transition><Days>1</Days></Transition>"), Errc::invalid_argument},
      {rule("<Filter/><Unknown/>" + days), Errc::malformed_xml},
  };
  for (const auto& [text, code] : cases) {
    const auto rules = parse_lifecycle(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_EQ(rules.error(), code) << text;
  }
}

// A core that read the one rule of a bucket waited for the thousand rules of another one.
TEST(LifecycleCache, FindsADocumentWhileAnotherOneIsParsed) {
  std::binary_semaphore parsing(0), found(0);
  bool waited_in_vain = false;
  LifecycleCache cache([&](std::string_view text) -> Result<std::vector<LifecycleRule>> {
    if (text == "long") {
      parsing.release();
      waited_in_vain = !found.try_acquire_for(std::chrono::seconds(5));
    }
    return std::vector<LifecycleRule>();
  });
  ASSERT_TRUE(cache.get("short"));
  std::jthread other([&] { EXPECT_TRUE(cache.get("long")); });
  parsing.acquire();
  EXPECT_TRUE(cache.get("short"));
  EXPECT_TRUE(cache.get("another"));
  found.release();
  other.join();
  EXPECT_FALSE(waited_in_vain);
}

TEST(LifecycleCache, LetsTheOldestGoAndNotAll) {
  std::map<std::string, int, std::less<>> parsed;
  LifecycleCache cache([&](std::string_view text) -> Result<std::vector<LifecycleRule>> {
    ++parsed[std::string(text)];
    return std::vector<LifecycleRule>();
  });
  for (size_t i = 0; i <= LifecycleCache::entries_max; ++i) ASSERT_TRUE(cache.get(std::to_string(i)));
  ASSERT_TRUE(cache.get("1"));
  EXPECT_EQ(parsed["1"], 1);
  ASSERT_TRUE(cache.get("0"));
  EXPECT_EQ(parsed["0"], 2);
  const std::string large(LifecycleCache::bytes_max, 'x');
  ASSERT_TRUE(cache.get(large));
  ASSERT_TRUE(cache.get(large));
  EXPECT_EQ(parsed[large], 1);
  ASSERT_TRUE(cache.get("1"));
  EXPECT_EQ(parsed["1"], 2);
}

TEST(LifecycleRules, DaysEndAtMidnightUnlessTheyAreShortened) {
  EXPECT_EQ(due_us(0, 1, day_s), day_us);
  EXPECT_EQ(due_us(1, 1, day_s), 2 * day_us);
  EXPECT_EQ(due_us(5 * second_us, 2, 10), 25 * second_us);
}

// Passes over the test's store, at a time of the test's choosing.
class Lifecycle : public Rig {
 protected:
  class Clock final : public WallClock {
   public:
    int64_t now_us() const override { return now; }
    int64_t now = 0;
  };
  void SetUp() override { make_bucket(); }
  void configure(const std::string& text) {
    const Reply r = call("PUT", "/bucket?lifecycle", {}, text);
    ASSERT_EQ(r.status, 200) << r.body;
  }
  // A pass `days` after the last change, with pages of one entry.
  void pass_after(int64_t days) {
    clock_.now = store.now_us() + days * day_us;
    std::atomic<bool> stop{false};
    LifecyclePass pass(store, clock_, {.day_s = day_s, .page_size = 1, .pause = std::chrono::milliseconds(0)}, stop);
    boost::asio::io_context io;
    boost::asio::co_spawn(io, pass.run(), boost::asio::detached);
    io.run();
  }
  size_t versions() { return call("GET", "/bucket?versions").count("<VersionId>"); }
  Clock clock_;
};

TEST_F(Lifecycle, TheLeastSizeOfTransitionsIsKeptAsItWasPut) {
  constexpr const char* header = "x-amz-transition-default-minimum-object-size";
  const std::string text = rule("<ID>r</ID><Filter/><Expiration><Days>3</Days></Expiration>");
  configure(text);
  const Reply usual = call("GET", "/bucket?lifecycle");
  EXPECT_EQ(usual.header(header), "all_storage_classes_128K");
  const Reply put = call("PUT", "/bucket?lifecycle", {{header, "varies_by_storage_class"}}, text);
  ASSERT_EQ(put.status, 200) << put.body;
  EXPECT_EQ(put.header(header), "varies_by_storage_class");
  const Reply got = call("GET", "/bucket?lifecycle");
  EXPECT_EQ(got.header(header), "varies_by_storage_class");
  EXPECT_EQ(got.body, usual.body);
  EXPECT_EQ(call("PUT", "/bucket?lifecycle", {{header, "nonsense"}}, text).code, "InvalidArgument");
  EXPECT_EQ(call("GET", "/bucket?lifecycle").header(header), "varies_by_storage_class") << "nothing was put";
  call("PUT", "/bucket/a", {}, "x");
  pass_after(5);
  EXPECT_EQ(call("HEAD", "/bucket/a").status, 404) << "the rules hold";
  configure(text);
  EXPECT_EQ(call("GET", "/bucket?lifecycle").header(header), "all_storage_classes_128K");
}

TEST_F(Lifecycle, ObjectsGoWhenTheirTimeHasComeAndNotBefore) {
  configure(rule("<ID>r</ID><Filter><Prefix>a</Prefix></Filter><Expiration><Days>3</Days></Expiration>"));
  for (const char* key : {"a1", "a2", "b1"}) put(key, "x");
  EXPECT_NE(call("HEAD", "/bucket/a1").header("x-amz-expiration").find("rule-id=\"r\""), std::string::npos);
  EXPECT_FALSE(call("HEAD", "/bucket/b1").has("x-amz-expiration"));
  pass_after(2);
  EXPECT_EQ(call("GET", "/bucket/a1").status, 200);
  pass_after(4);
  EXPECT_EQ(call("GET", "/bucket/a1").status, 404);
  EXPECT_EQ(call("GET", "/bucket/a2").status, 404);
  EXPECT_EQ(call("GET", "/bucket/b1").status, 200);
}

TEST_F(Lifecycle, VersionsGoAndTheNewestOfThemAreKept) {
  call("PUT", "/bucket?versioning", {}, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  for (int i = 0; i < 6; ++i) put("k", "x");
  configure(
      rule("<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
           "<NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"));
  pass_after(0);
  EXPECT_EQ(versions(), 6u);
  pass_after(3);
  EXPECT_EQ(versions(), 3u);
  EXPECT_EQ(call("GET", "/bucket/k").status, 200);
}

TEST_F(Lifecycle, ADeleteMarkerGoesWhenItHidesNothing) {
  call("PUT", "/bucket?versioning", {}, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  put("k", "x");
  call("DELETE", "/bucket/k");
  call("DELETE", "/bucket/lone");
  configure(rule("<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"));
  pass_after(0);
  EXPECT_EQ(versions(), 2u);  // that of "lone" is gone
  EXPECT_EQ(call("GET", "/bucket?versions").element("Key"), "k");
}

TEST_F(Lifecycle, WhatIsHeldStays) {
  TestCall make;
  make.method = "PUT";
  make.target = "/locked";
  make.headers = {{"x-amz-bucket-object-lock-enabled", "true"}};
  ASSERT_EQ(call(make).status, 200);
  call("PUT", "/locked/k", {{"x-amz-object-lock-legal-hold", "ON"}}, "held");
  call("PUT", "/locked/k", {}, "current");
  ASSERT_EQ(call("PUT", "/locked?lifecycle", {},
                 rule("<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
                      "</NoncurrentVersionExpiration>"))
                .status,
            200);
  pass_after(5);
  EXPECT_EQ(call("GET", "/locked?versions").count("<VersionId>"), 2u);
}

TEST_F(Lifecycle, UploadsAreAborted) {
  ASSERT_EQ(call("POST", "/bucket/a?uploads").status, 200);
  ASSERT_EQ(call("POST", "/bucket/b?uploads").status, 200);
  configure(
      rule("<Filter><Prefix>a</Prefix></Filter><AbortIncompleteMultipartUpload><DaysAfterInitiation>2"
           "</DaysAfterInitiation></AbortIncompleteMultipartUpload>"));
  pass_after(1);
  EXPECT_EQ(call("GET", "/bucket?uploads").count("<Upload>"), 2u);
  pass_after(4);
  EXPECT_EQ(call("GET", "/bucket?uploads").count("<Upload>"), 1u);
}

// The native door calls the same functions: a delete makes a marker, and an older version is read by its name.
TEST_F(Lifecycle, TypedVerbsKnowVersionsToo) {
  call("PUT", "/bucket?versioning", {}, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  const std::string first = put("k", "one").header("x-amz-version-id");
  put("k", "two");
  EXPECT_EQ(call("GET", "/bucket/k?versionId=" + first).body, "one");
  const Reply gone = call("DELETE", "/bucket/k");
  EXPECT_EQ(gone.header("x-amz-delete-marker"), "true");
  const Reply missing = call("GET", "/bucket/k");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.header("x-amz-delete-marker"), "true");
  EXPECT_EQ(call("HEAD", "/bucket/k?versionId=" + gone.header("x-amz-version-id")).status, 405);
}

}  // namespace
}  // namespace verbena::s3::test
