// Passes of lifecycle rules while everything changes: what a pass has looked at is another by the time it acts.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_future.hpp>

#include <set>
#include <thread>

#include "base/metrics.h"
#include "s3/workers/lifecycle_worker.h"
#include "s3_http/test_rig.h"
#include "store/local/test_store.h"
#include "store/logic/versions.h"

namespace verbena::s3::test {
namespace {

constexpr int64_t a_day_s = 86'400, a_day_us = a_day_s * 1'000'000;

std::string rules_of(const std::string& inside) {
  return "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status>" + inside +
         "</Rule></LifecycleConfiguration>";
}
const std::string by_days = rules_of("<Filter/><Expiration><Days>1</Days></Expiration>");
std::string noncurrent(int keep) {
  std::string newer;
  if (keep != 0) newer = "<NewerNoncurrentVersions>" + std::to_string(keep) + "</NewerNoncurrentVersions>";
  return rules_of("<Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>" + newer +
                  "</NoncurrentVersionExpiration>");
}

class SetClock final : public WallClock {
 public:
  int64_t now_us() const override { return now; }
  std::atomic<int64_t> now{0};
};

class LifecycleMeanwhile : public Rig {
 protected:
  void SetUp() override { make_bucket(); }
  void configure(const std::string& text) { ASSERT_EQ(call("PUT", "/bucket?lifecycle", {}, text).status, 200); }
  void set_versioning(const std::string& status) {
    const std::string text = "<VersioningConfiguration><Status>" + status + "</Status></VersioningConfiguration>";
    ASSERT_EQ(call("PUT", "/bucket?versioning", {}, text).status, 200);
  }
  // A pass 40 days later. `happens` when it has read a page and is about to act for the `at`th time.
  void pass_in_which(int at, std::function<void()> happens) {
    SetClock clock;
    clock.now = store.now_us() + 40 * a_day_us;
    constexpr int before_a_page = 2;  // it asks whether it is to go on, too
    int asked = 0;
    LifecycleOptions options{.day_s = a_day_s, .page_size = 1000, .pause = std::chrono::milliseconds(0)};
    options.on_duty = [&] {
      if (++asked == before_a_page + at) happens();
      return true;
    };
    std::atomic<bool> stop{false};
    LifecyclePass pass(store, clock, options, stop);
    boost::asio::io_context own;
    boost::asio::co_spawn(own, pass.run(), boost::asio::detached);
    own.run();
    EXPECT_GE(asked, before_a_page + at) << "it did not come so far";
  }
  size_t versions() { return call("GET", "/bucket?versions").count("<VersionId>"); }
  size_t objects() { return call("GET", "/bucket").count("<Key>"); }
};

TEST_F(LifecycleMeanwhile, NothingGoesAfterTheRulesWereTakenBack) {
  configure(by_days);
  for (int i = 0; i < 30; ++i) put("k" + std::to_string(10 + i), "x");
  size_t left = 0;
  pass_in_which(11, [&] {
    ASSERT_EQ(call("DELETE", "/bucket?lifecycle").status, 204);
    left = objects();
  });
  EXPECT_EQ(left, 20u);
  EXPECT_EQ(objects(), left);
}

TEST_F(LifecycleMeanwhile, OtherRulesHoldFromTheirAnswerOn) {
  configure(by_days);
  for (int i = 0; i < 30; ++i) put("k" + std::to_string(10 + i), "x");
  pass_in_which(
      11, [&] { configure(rules_of("<Filter><Prefix>k3</Prefix></Filter><Expiration><Days>1</Days></Expiration>")); });
  EXPECT_EQ(call("GET", "/bucket/k25").status, 200);
  EXPECT_EQ(call("GET", "/bucket/k35").status, 404);
}

TEST_F(LifecycleMeanwhile, NoUploadIsAbortedAfterTheRulesWereTakenBack) {
  for (int i = 0; i < 9; ++i) ASSERT_EQ(call("POST", "/bucket/k" + std::to_string(i) + "?uploads").status, 200);
  configure(
      rules_of("<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
               "</AbortIncompleteMultipartUpload>"));
  size_t left = 0;
  const auto uploads = [&] { return call("GET", "/bucket?uploads").count("<Upload>"); };
  pass_in_which(6, [&] {
    ASSERT_EQ(call("DELETE", "/bucket?lifecycle").status, 204);
    left = uploads();
  });
  EXPECT_GT(left, 0u);
  EXPECT_LT(left, 9u);
  EXPECT_EQ(uploads(), left);
}

TEST_F(LifecycleMeanwhile, AVersionThatBecameCurrentAgainStays) {
  set_versioning("Enabled");
  put("k", "one");
  const std::string two = put("k", "two").header("x-amz-version-id");
  configure(noncurrent(0));
  pass_in_which(1, [&] { ASSERT_EQ(call("DELETE", "/bucket/k?versionId=" + two).status, 204); });
  EXPECT_EQ(call("GET", "/bucket/k").body, "one");
}

TEST_F(LifecycleMeanwhile, AsManyNoncurrentVersionsAreKeptAsTheRuleSays) {
  set_versioning("Enabled");
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(put("k", "x").header("x-amz-version-id"));
  configure(noncurrent(2));
  // Of the three noncurrent ones the oldest is too many, until one of the others goes.
  pass_in_which(1, [&] { ASSERT_EQ(call("DELETE", "/bucket/k?versionId=" + ids[2]).status, 204); });
  EXPECT_EQ(versions(), 3u);
}

TEST_F(LifecycleMeanwhile, AnObjectThatWasTaggedOtherwiseStays) {
  put("k", "x", {{"x-amz-tagging", "keep=no"}});
  configure(
      rules_of("<Filter><Tag><Key>keep</Key><Value>no</Value></Tag></Filter>"
               "<Expiration><Days>1</Days></Expiration>"));
  pass_in_which(1, [&] {
    const std::string tags = "<Tagging><TagSet><Tag><Key>keep</Key><Value>yes</Value></Tag></TagSet></Tagging>";
    ASSERT_EQ(call("PUT", "/bucket/k?tagging", {}, tags).status, 200);
  });
  EXPECT_EQ(call("GET", "/bucket/k").status, 200);
}

// Before it is suspended the rule would have left a delete marker over it; afterwards the null version goes for good.
TEST_F(LifecycleMeanwhile, WhatWasToBeHiddenIsNotRemovedWhenVersioningIsSuspended) {
  put("k", "null version");
  set_versioning("Enabled");
  configure(by_days);
  pass_in_which(1, [&] { set_versioning("Suspended"); });
  EXPECT_EQ(call("GET", "/bucket/k").body, "null version");
}

TEST_F(LifecycleMeanwhile, ADeleteMarkerStaysThatHidesSomethingByNow) {
  set_versioning("Enabled");
  call("DELETE", "/bucket/k");
  call("DELETE", "/bucket/l");
  configure(rules_of("<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"));
  // When the page was read, each was alone.
  pass_in_which(1, [&] {
    put("k", "x");
    call("DELETE", "/bucket/k");
  });
  EXPECT_EQ(call("GET", "/bucket?versions").count("<Key>k</Key>"), 3u);
  EXPECT_EQ(call("GET", "/bucket?versions").count("<Key>l</Key>"), 0u);
}

TEST_F(LifecycleMeanwhile, ANewBucketIsNotBegunWhereAnOldOneOfItsNameEnded) {
  put("a", "x");
  configure(by_days);
  ASSERT_TRUE(run(store.set_document("bucket", "lifecycle-progress", std::string("@1\0\0b", 5))));
  pass_in_which(0, [] {});
  EXPECT_EQ(call("GET", "/bucket/a").status, 404);
}

// A row that did not decode kept its bucket's versions and uploads behind it for good.
TEST_F(LifecycleMeanwhile, WhatLiesBehindADamagedRowIsJudged) {
  set_versioning("Enabled");
  for (const char* key : {"a", "b-of-lifecycle", "c", "hidden"}) put(key, "one");
  const std::string old = call("GET", "/bucket?versions&prefix=hidden").element("VersionId");
  for (const char* key : {"a", "b-of-lifecycle", "c"}) put(key, "two");
  ASSERT_EQ(call("DELETE", "/bucket/hidden").status, 204);
  for (const char* key : {"u", "v"}) ASSERT_EQ(call("POST", std::string("/bucket/") + key + "?uploads").status, 200);
  const std::string upload = call("GET", "/bucket?uploads").element("UploadId");
  const uint64_t bucket = store.context()->buckets.find("bucket")->id;
  configure(
      rules_of("<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
               "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"
               "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
               "</AbortIncompleteMultipartUpload>"));
  store.damage_object("bucket", "b-of-lifecycle");
  // Else the marker were the key's only version.
  store.damage_row(store::Table::versions, store::keys::version(bucket, "hidden", *store::parse_version_id(old)));
  store.damage_row(store::Table::uploads, store::keys::upload(bucket, "u", upload));
  const auto told = metrics::counter("verbena_damaged_keys_total", "").value();
  for (int i = 0; i < 2; ++i) pass_in_which(0, [] {});
  EXPECT_EQ(metrics::counter("verbena_damaged_keys_total", "").value() - told, 3U) << "each once";
  store::ListVersionsRequest request;
  request.passes_damage = true;
  const auto there = run(store.list_versions("bucket", request));
  ASSERT_TRUE(there);
  std::vector<std::string> left;
  for (const auto& entry : there->versions) left.push_back(entry.key + (entry.info.delete_marker ? " marker" : ""));
  EXPECT_EQ(left, (std::vector<std::string>{"a", "c", "hidden marker"}));
  EXPECT_EQ(there->damaged, (std::vector<std::string>{"b-of-lifecycle", "hidden"}));
  EXPECT_EQ(call("GET", "/bucket?uploads&key-marker=u").count("<Upload>"), 0U) << "the upload behind it stays";
}

// Where a row of a version has no key that could be passed over, uploads stayed for good.
TEST_F(LifecycleMeanwhile, UploadsAreEndedWhateverBecameOfTheVersions) {
  ASSERT_EQ(call("POST", "/bucket/k?uploads").status, 200);
  configure(
      rules_of("<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
               "</AbortIncompleteMultipartUpload>"));
  store.damage_row(store::Table::versions,
                   store::keys::version_bucket(store.context()->buckets.find("bucket")->id) + "x");
  store::ListVersionsRequest request;
  request.passes_damage = true;
  ASSERT_FALSE(run(store.list_versions("bucket", request)));
  pass_in_which(0, [] {});
  EXPECT_EQ(call("GET", "/bucket?uploads").count("<Upload>"), 0U);
}

// Overwrites, listings and passes beside each other at full speed, on engines that run on several threads.
template <class T>
T run_on(boost::asio::io_context& io, Task<T> task) {
  auto future = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
  io.restart();
  io.run();
  return future.get();
}

class OnEngines {
 public:
  static constexpr int keys = 32;
  OnEngines(store::Store& store, SetClock& clock) : store_(store), clock_(clock) {
    EXPECT_TRUE(run_on(io_, store_.create_bucket({.name = "b", .owner = "root"})));
    EXPECT_TRUE(run_on(io_, store_.set_versioning("b", store::Versioning::enabled)));
    EXPECT_TRUE(run_on(io_, store_.set_document("b", lifecycle_document, noncurrent(0))));
  }

  // Each round is 40 days after the one before. What was current when it began becomes noncurrent in it, and stays;
  // what was noncurrent then goes.
  void rounds(int rounds) {
    put_all();
    for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
      clock_.now += 40 * a_day_us;
      const auto before = current();
      std::atomic<bool> stop{false};
      std::thread passing([&] { pass_until(stop); });
      put_all();
      stop = true;
      passing.join();
      const auto there = ids();
      for (const std::string& id : before) EXPECT_TRUE(there.contains(id)) << "overwritten a moment ago, and gone";
    }
    pass_once(io_, std::atomic<bool>{false});
    EXPECT_LE(ids().size(), size_t{2} * keys);
  }

 private:
  void put_all() {
    for (int i = 0; i < keys; ++i) {
      const auto writer = run_on(io_, store_.create("b", "k" + std::to_string(100 + i), 0));
      ASSERT_TRUE(writer);
      store::ObjectInfo info;
      info.etag = "none";
      ASSERT_TRUE(run_on(io_, (*writer)->commit(std::move(info), {})));
    }
  }
  // Of all pages: where the machine is busy, no pass ends in many rounds.
  std::vector<store::VersionEntry> versions() {
    std::vector<store::VersionEntry> all;
    for (store::ListVersionsRequest request;;) {
      const auto listed = run_on(io_, store_.list_versions("b", request));
      EXPECT_TRUE(listed);
      if (!listed) return all;
      all.insert(all.end(), listed->versions.begin(), listed->versions.end());
      if (!listed->truncated) return all;
      request.key_marker = listed->next_key_marker;
      request.version_id_marker = listed->next_version_id_marker;
    }
  }
  std::set<std::string> ids() {
    std::set<std::string> ids;
    for (const auto& entry : versions()) ids.insert(entry.info.version_id);
    return ids;
  }
  std::set<std::string> current() {
    std::set<std::string> ids;
    for (const auto& entry : versions()) {
      if (entry.latest) ids.insert(entry.info.version_id);
    }
    return ids;
  }
  void pass_until(const std::atomic<bool>& stop) {
    boost::asio::io_context& io = store::local::loop_that_stays();
    while (!stop) pass_once(io, stop);
  }
  void pass_once(boost::asio::io_context& io, const std::atomic<bool>& stop) {
    LifecyclePass pass(store_, clock_, {.day_s = a_day_s, .pause = std::chrono::milliseconds(0)}, stop);
    boost::asio::co_spawn(io, pass.run(), boost::asio::detached);
    io.restart();
    io.run();
  }

  store::Store& store_;
  SetClock& clock_;
  boost::asio::io_context& io_ = store::local::loop_that_stays();
};

TEST(LifecycleAtFullSpeed, WhatWasOverwrittenAMomentAgoStaysInMemory) {
  SetClock clock;
  const auto arena = memory::Arena::create(64 * MiB).value();
  store::in_memory::MemoryStore store({.arena = arena.get(), .clock = &clock});
  OnEngines(store, clock).rounds(40);
}

TEST(LifecycleAtFullSpeed, WhatWasOverwrittenAMomentAgoStaysOnDisk) {
  SetClock clock;
  store::local::FaultyFileSystem files;
  store::local::TestStore t(&files);
  t.options.clock = &clock;
  t.open();
  OnEngines(t.engine(), clock).rounds(20);
}

}  // namespace
}  // namespace verbena::s3::test
