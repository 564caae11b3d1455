// Bounded buckets, by every writer of the HTTP verbs.
#include "s3/workers/bounds_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "base/metrics.h"
#include "s3/access_generation.h"
#include "s3/events/event_queues.h"
#include "s3_http/test_rig.h"
#include "store/ends.h"
#include "store/key_pins.h"

namespace verbena::s3::test {
namespace {

class BoundsTest : public Rig {
 protected:
  explicit BoundsTest(uint64_t memory_max = BucketBounds::memory_default) : bounds_(memory_max) {
    service.bounds = &bounds_;
    worker_ = std::make_unique<BoundsWorker>(service, dynamic_cast<store::ChangeFeeds&>(service.store));
    worker_->start();
    EXPECT_EQ(send("PUT", "/bucket").status, 200);
  }
  ~BoundsTest() override { worker_->stop(); }

  Reply send(const std::string& method, const std::string& target, std::string body = {}, Headers headers = {}) {
    TestCall c;
    c.method = method;
    c.target = target;
    c.body = std::move(body);
    c.headers = std::move(headers);
    return call(std::move(c));
  }
  int bind(const std::string& inside) {
    return send("PUT", "/bucket?verbena-bound", "<BoundConfiguration>" + inside + "</BoundConfiguration>").status;
  }
  int put(const std::string& key, size_t size = 1000) {
    return send("PUT", "/bucket/" + key, std::string(size, 'x')).status;
  }
  bool has(const std::string& key) { return send("HEAD", "/bucket/" + key).status == 200; }
  store::Usage held() {
    const auto now = service.store.usage_now("bucket");
    EXPECT_TRUE(now);
    return now->bucket;
  }
  template <class F>
  static bool soon(F f) {
    for (int i = 0; i < 500 && !f(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return f();
  }

  BucketBounds bounds_;
  std::unique_ptr<BoundsWorker> worker_;
};

TEST_F(BoundsTest, AFullBucketEvictsAndNeverHoldsMoreThanItsBound) {
  ASSERT_EQ(bind("<MaxBytes>20000</MaxBytes>"), 200);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(put("k" + std::to_string(i)), 200);
    ASSERT_LE(held().bytes, 20'000U);
  }
  EXPECT_GE(held().objects, 15U);
  EXPECT_TRUE(has("k199"));
  EXPECT_FALSE(has("k0"));
}

TEST_F(BoundsTest, TheNumberOfObjectsIsBounded) {
  ASSERT_EQ(bind("<MaxObjects>3</MaxObjects><Policy>lru</Policy>"), 200);
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key), 200);
  EXPECT_EQ(held().objects, 3U);
  ASSERT_EQ(send("GET", "/bucket/a").status, 200);
  ASSERT_EQ(put("d"), 200);
  EXPECT_TRUE(has("a"));  // read since
  EXPECT_FALSE(has("b"));
  EXPECT_EQ(held().objects, 3U);
}

TEST_F(BoundsTest, ByTtlTheObjectThatEndsNextGoesFirst) {
  ASSERT_EQ(bind("<MaxObjects>3</MaxObjects><Policy>ttl</Policy>"), 200);
  ASSERT_EQ(put("forever"), 200);
  ASSERT_EQ(send("PUT", "/bucket/late", "x", {{"x-verbena-ttl", "9000"}}).status, 200);
  ASSERT_EQ(send("PUT", "/bucket/early", "x", {{"x-verbena-ttl", "900"}}).status, 200);
  ASSERT_EQ(put("new"), 200);
  EXPECT_FALSE(has("early"));
  ASSERT_EQ(put("newer"), 200);
  EXPECT_FALSE(has("late"));
  EXPECT_TRUE(has("forever"));
}

TEST_F(BoundsTest, PinnedObjectsStayAndABucketOfPinnedOnesIsFull) {
  ASSERT_EQ(bind("<MaxObjects>2</MaxObjects>"), 200);
  ASSERT_EQ(put("a"), 200);
  ASSERT_EQ(put("b"), 200);
  auto& pins = store::KeyPins::get();
  pins.pin("bucket", "a");
  ASSERT_EQ(put("c"), 200);
  EXPECT_TRUE(has("a"));
  pins.pin("bucket", "c");
  EXPECT_EQ(put("d"), 507);
  EXPECT_TRUE(has("a"));
  EXPECT_TRUE(has("c"));
  pins.unpin("bucket", "a");
  pins.unpin("bucket", "c");
  EXPECT_EQ(put("d"), 200);
}

TEST_F(BoundsTest, AnObjectLargerThanTheBoundIsRefused) {
  ASSERT_EQ(bind("<MaxBytes>5000</MaxBytes>"), 200);
  ASSERT_EQ(put("small", 4000), 200);
  EXPECT_EQ(put("large", 5001), 507);
  EXPECT_TRUE(has("small"));
  EXPECT_EQ(put("fits", 5000), 200);
  EXPECT_FALSE(has("small"));
}

TEST_F(BoundsTest, ABoundThatShrinksIsMetWithoutAWrite) {
  ASSERT_EQ(bind("<MaxObjects>100</MaxObjects>"), 200);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  ASSERT_EQ(bind("<MaxObjects>10</MaxObjects>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects == 10; }));
  EXPECT_TRUE(has("k49"));
}

// A sixty-fourth of a small bound was no room for one batch of writes.
TEST_F(BoundsTest, ASmallBoundKeepsASixteenthFree) {
  ASSERT_EQ(bind("<MaxObjects>160</MaxObjects>"), 200);
  for (int i = 0; i < 170; ++i) ASSERT_EQ(put("k" + std::to_string(i), 1), 200);
  EXPECT_TRUE(soon([&] { return held().objects <= 155; }));
  EXPECT_GE(held().objects, 150U);
  EXPECT_TRUE(has("k169"));
}

// Memory for the orders of 268 objects with such keys in a bucket.
class CrowdedBoundsTest : public BoundsTest {
 protected:
  CrowdedBoundsTest() : BoundsTest(0) {}
  static constexpr uint64_t fit = OrderMemory::least_bytes / (OrderMemory::entry_bytes + 4);
  static uint64_t early() { return metrics::counter("verbena_evicted_early_total", "").value(); }
};

TEST_F(CrowdedBoundsTest, ABucketEvictsEarlierIfTheMemoryOfOrdersIsUsedUp) {
  const uint64_t before = early();
  ASSERT_EQ(bind("<MaxObjects>1000</MaxObjects>"), 200);
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(put("k" + std::to_string(100 + i), 1), 200);
    ASSERT_LE(held().objects, fit);
    ASSERT_LE(bounds_.memory_bytes(), OrderMemory::least_bytes);
  }
  EXPECT_TRUE(has("k499"));
  EXPECT_GE(held().objects, fit / 2);
  EXPECT_GE(early() - before, 400 - fit);
  const Reply told = send("GET", "/bucket?verbena-bound");
  EXPECT_EQ(told.header("x-verbena-objects-allowed"), std::to_string(fit));
}

TEST_F(CrowdedBoundsTest, WhatWasThereAndHasNoRoomInAnOrderIsEvictedByAge) {
  for (int i = 0; i < 400; ++i) ASSERT_EQ(put("k" + std::to_string(100 + i), 1), 200);
  ASSERT_EQ(bind("<MaxBytes>1000000</MaxBytes>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects <= fit; }));
  EXPECT_GE(held().objects, fit / 2);
  EXPECT_FALSE(has("k100"));
  EXPECT_TRUE(has("k499"));
  EXPECT_LE(bounds_.memory_bytes(), OrderMemory::least_bytes);
}

TEST_F(CrowdedBoundsTest, OfThoseThatWouldBeKeptASixteenthOfWhatFitsIs) {
  for (int i = 0; i < 400; ++i) ASSERT_EQ(put("k" + std::to_string(100 + i) + "/namespace.json", 1), 200);
  ASSERT_EQ(bind("<MaxBytes>1000000</MaxBytes>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects <= fit; }));
  EXPECT_TRUE(has("k100/namespace.json")) << "the first one that was listed";
  EXPECT_FALSE(has("k130/namespace.json"));
  EXPECT_TRUE(has("k499/namespace.json")) << "the youngest";
}

TEST_F(BoundsTest, TheOrderOfABucketThatIsBoundedNoMoreIsDestroyedByTheWorker) {
  ASSERT_EQ(bind("<MaxObjects>1000</MaxObjects>"), 200);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(put("k" + std::to_string(i), 1), 200);
  EXPECT_GE(bounds_.memory_bytes(), 50 * OrderMemory::entry_bytes);
  const auto bound = bounds_.all();  // a request that still knows it
  ASSERT_EQ(bound.size(), 1U);
  EXPECT_EQ(send("DELETE", "/bucket?verbena-bound").status, 204);
  EXPECT_EQ(put("another"), 200);
  EXPECT_TRUE(soon([&] { return bounds_.memory_bytes() == 0; }));
  EXPECT_EQ(bound.front()->held().objects, 0U);
}

TEST_F(BoundsTest, WhatWasThereBeforeTheBoundIsEvictedByAge) {
  for (int i = 0; i < 20; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  ASSERT_EQ(bind("<MaxObjects>5</MaxObjects>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects == 5; }));
  for (int i = 15; i < 20; ++i) EXPECT_TRUE(has("k" + std::to_string(i))) << i;
}

// As after a start: the order is made from the listing.
TEST_F(BoundsTest, OfWhatWasThereBeforeTheRenewalOfATtlIsAUse) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(send("PUT", "/bucket/k" + std::to_string(i), "x", {{"x-verbena-ttl", "9000"}}).status, 200);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // ends are of whole seconds
  ASSERT_EQ(send("PUT", "/bucket/k3?verbena-touch").status, 200);
  for (const char* const policy : {"lru", "s3-fifo"}) {
    const size_t max = *policy == 'l' ? 10 : 5;
    const std::string text = "<MaxObjects>" + std::to_string(max) + "</MaxObjects><Policy>" + policy + "</Policy>";
    ASSERT_EQ(bind(text), 200);
    EXPECT_TRUE(soon([&] { return held().objects == max; }));
    EXPECT_TRUE(has("k3") && has("k19")) << policy;
    EXPECT_FALSE(has("k" + std::to_string(20 - max))) << policy;
  }
}

TEST_F(BoundsTest, ABoundThatOnlyRenewsEvictsNothing) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  ASSERT_EQ(bind("<RenewOnRead>true</RenewOnRead>"), 200);
  for (int i = 5; i < 20; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  EXPECT_EQ(held().objects, 20U);
  ASSERT_EQ(bind("<MaxObjects>4</MaxObjects><RenewOnRead>true</RenewOnRead>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects == 4; }));  // it learned of all of them
}

TEST_F(BoundsTest, AnObjectWhoseTimeIsKnownWronglyIsEvictedAllTheSame) {
  ASSERT_EQ(bind("<MaxObjects>100</MaxObjects>"), 200);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  const BoundPtr bound = bounds_.all().front();
  for (int i = 0; i < 20; ++i) {
    store::KeyChange change;
    change.what = store::KeyEvent::created;
    change.key = "k" + std::to_string(i);
    change.size = 1000;
    change.time_us = 1;
    bound->told(0, std::make_shared<const store::KeyChange>(change));
  }
  ASSERT_EQ(bind("<MaxObjects>5</MaxObjects>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects <= 5; }));
}

TEST_F(BoundsTest, AnEvictionByADocumentThatHasChangedIsRefused) {
  ASSERT_EQ(bind("<MaxObjects>100</MaxObjects>"), 200);
  ASSERT_EQ(put("k"), 200);
  const auto created_us = bounds_.all().front()->created_us();
  const auto owner = bounds_.all().front()->owner();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  // As a request does that read the document before it was replaced.
  const auto old = std::make_shared<const std::string>(bound_xml({.objects_max = 2}));
  ASSERT_TRUE(bounds_.of("bucket", created_us, owner, old, service.access->now("bucket")));
  EXPECT_TRUE(soon([&] { return bounds_.all().front()->settings().objects_max == 100; }));  // it looked again
  EXPECT_EQ(held().objects, 21U);
}

TEST_F(BoundsTest, CopiesAndOverwritesCount) {
  ASSERT_EQ(bind("<MaxBytes>3100</MaxBytes>"), 200);
  ASSERT_EQ(put("a"), 200);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(put("a", 1500), 200);
  EXPECT_EQ(held().bytes, 1500U);
  for (const char* key : {"/bucket/b", "/bucket/c"}) {
    ASSERT_EQ(send("PUT", key, "", {{"x-amz-copy-source", "/bucket/a"}}).status, 200);
    EXPECT_LE(held().bytes, 3100U);
    ASSERT_EQ(put("a", 1500), 200);
  }
}

TEST_F(BoundsTest, ACopyLargerThanTheBoundIsRefusedAndEvictsNothing) {
  ASSERT_EQ(send("PUT", "/source").status, 200);
  ASSERT_EQ(send("PUT", "/source/large", std::string(6000, 'x')).status, 200);
  ASSERT_EQ(send("PUT", "/source/fits", std::string(2000, 'x')).status, 200);
  ASSERT_EQ(bind("<MaxBytes>5000</MaxBytes>"), 200);
  ASSERT_EQ(put("small", 4000), 200);
  EXPECT_EQ(send("PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/source/large"}}).status, 507);
  EXPECT_TRUE(has("small"));
  EXPECT_EQ(send("PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/source/fits"}}).status, 200);
  EXPECT_FALSE(has("small"));
  EXPECT_LE(held().bytes, 5000U);
}

TEST_F(BoundsTest, AnOverwriteDoesNotEvictWhatItReplaces) {
  ASSERT_EQ(bind("<MaxBytes>5000</MaxBytes>"), 200);
  ASSERT_EQ(put("a", 4000), 200);
  const std::string etag = send("HEAD", "/bucket/a").header("etag");
  EXPECT_EQ(send("PUT", "/bucket/a", std::string(4500, 'y'), {{"if-match", etag}}).status, 200);
  ASSERT_EQ(put("b", 300), 200);
  EXPECT_EQ(put("a", 4900), 200);  // evicts the other one
  EXPECT_FALSE(has("b"));
  EXPECT_EQ(held().bytes, 4900U);
}

TEST_F(BoundsTest, AWriteThatItsConditionsRefuseEvictsNothing) {
  ASSERT_EQ(bind("<MaxBytes>5000</MaxBytes>"), 200);
  ASSERT_EQ(put("a", 4000), 200);
  EXPECT_EQ(send("PUT", "/bucket/b", std::string(4000, 'y'), {{"if-match", "\"none\""}}).status, 404);
  EXPECT_EQ(send("PUT", "/bucket/a", std::string(5000, 'y'), {{"if-none-match", "*"}}).status, 412);
  EXPECT_TRUE(has("a"));
}

TEST_F(BoundsTest, ManyWritersOfAFullBucketAllComeThrough) {
  ASSERT_EQ(bind("<MaxBytes>20000</MaxBytes>"), 200);
  std::atomic<bool> ends{false};
  std::thread small([&] {
    for (int i = 0; !ends; ++i) EXPECT_EQ(put("s" + std::to_string(i), 1000), 200);
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(put("large" + std::to_string(i % 2), 18'000), 200);
  ends = true;
  small.join();
}

TEST_F(BoundsTest, ALongRunOfWritesNeverExceedsTheBound) {
  constexpr uint64_t most = 100'000;
  ASSERT_EQ(bind("<MaxBytes>" + std::to_string(most) + "</MaxBytes>"), 200);
  std::atomic<bool> ends{false};
  uint64_t highest = 0;
  std::thread watcher([&] {
    for (; !ends; std::this_thread::yield()) highest = std::max(highest, held().bytes);
  });
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(put("k" + std::to_string(i % 300), 500 + i % 700), 200);
  ends = true;
  watcher.join();
  EXPECT_LE(highest, most + most / 100);
  EXPECT_GE(held().bytes, most * 9 / 10);
}

TEST_F(BoundsTest, ReadsRenewTheEndWhereTheBucketSaysSo) {
  ASSERT_EQ(bind("<RenewOnRead>true</RenewOnRead>"), 200);
  EXPECT_NE(send("GET", "/bucket?verbena-bound").body.find("<RenewOnRead>true</RenewOnRead>"), std::string::npos);
  ASSERT_EQ(send("PUT", "/bucket/k", "x", {{"x-verbena-ttl", "100"}}).status, 200);
  const auto end = [&] { return send("HEAD", "/bucket/k").header("x-verbena-expires"); };
  const auto first = end();
  // A tenth of the TTL has to pass, by the store's clock: a second at each object.
  for (int i = 0; i < 12; ++i) ASSERT_EQ(put("another"), 200);
  EXPECT_TRUE(soon([&] {
    EXPECT_EQ(send("GET", "/bucket/k").status, 200);
    return end() != first;
  }));
}

TEST_F(BoundsTest, VersionsAndBoundsExcludeEachOther) {
  const std::string enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  ASSERT_EQ(bind("<MaxObjects>5</MaxObjects>"), 200);
  EXPECT_EQ(send("PUT", "/bucket?versioning", enabled).status, 409);
  EXPECT_EQ(send("DELETE", "/bucket?verbena-bound").status, 204);
  EXPECT_EQ(send("PUT", "/bucket?versioning", enabled).status, 200);
  EXPECT_EQ(bind("<MaxObjects>5</MaxObjects>"), 409);
}

TEST_F(BoundsTest, ABoundThatSaysNothingOrNonsenseIsRefused) {
  for (const char* bad : {"", "<MaxBytes>0</MaxBytes>", "<MaxBytes>-1</MaxBytes>", "<MaxObjects>4194305</MaxObjects>",
                          "<MaxObjects>1</MaxObjects><Policy>random</Policy>", "<RenewOnRead>yes</RenewOnRead>",
                          "<RenewOnRead>false</RenewOnRead>", "<Unknown>1</Unknown>"}) {
    EXPECT_EQ(bind(bad), 400) << bad;
  }
}

TEST_F(BoundsTest, OtherSettingsRearrangeTheOrderAndDoNotListTheBucketAgain) {
  ASSERT_EQ(bind("<MaxObjects>100</MaxObjects><Policy>lru</Policy>"), 200);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  ASSERT_EQ(send("GET", "/bucket/k0").status, 200);
  const BoundPtr bound = bounds_.all().front();
  for (const char* const other : {"<Policy>ttl</Policy>", "<Policy>s3-fifo</Policy><KeepSuffix>/1</KeepSuffix>",
                                  "<Policy>lru</Policy><KeepSuffix>9</KeepSuffix>"}) {
    ASSERT_EQ(bind("<MaxObjects>100</MaxObjects>" + std::string(other)), 200);
    EXPECT_EQ(bounds_.all().front(), bound) << other;
    EXPECT_TRUE(bound->is_loaded()) << other;
    EXPECT_EQ(bound->held().objects, 20U) << other;
  }
  ASSERT_EQ(bind("<MaxObjects>16</MaxObjects><Policy>lru</Policy><KeepSuffix>9</KeepSuffix>"), 200);
  EXPECT_TRUE(soon([&] { return held().objects <= 16; }));
  EXPECT_TRUE(has("k9")) << "one is kept now";
  EXPECT_FALSE(has("k1"));
}

// A load of a large bucket made the writes of all other bounded buckets wait until it ended.
TEST_F(BoundsTest, ALoadIsDoneInSlicesAndStopsWhenItsBoundIsGone) {
  constexpr int count = 5000;
  for (int i = 0; i < count; ++i) ASSERT_EQ(put("k" + std::to_string(i), 1), 200);
  const auto info = run(service.store.bucket("bucket"));
  ASSERT_TRUE(info);
  auto& feeds = dynamic_cast<store::ChangeFeeds&>(service.store);
  for (const bool stays : {true, false}) {
    const auto bound =
        std::make_shared<Bound>("bucket", info->created_us, info->owner, BoundSettings{.objects_max = 10'000}, [] {});
    BoundLoad load(bound, service.store);
    ASSERT_TRUE(run(load.go_on(feeds)).value());
    EXPECT_FALSE(bound->is_loaded());
    ASSERT_EQ(put("new", 1), 200);
    ASSERT_EQ(send("DELETE", "/bucket/k0").status, 204);  // listed already
    if (!stays) bound->withdraw();
    int slices = 1;
    while (run(load.go_on(feeds)).value()) ++slices;
    EXPECT_EQ(bound->is_loaded(), stays);
    EXPECT_LE(slices, stays ? 4 : 1);
    const uint64_t left = count;  // one is new, and one is gone
    EXPECT_TRUE(!stays || bound->held().objects == left) << bound->held().objects;
  }
}

// The order knows what is kept; those that its load evicts for want of memory are in no order yet.
TEST_F(BoundsTest, ALoadThatHasNoMemoryForAllEvictsNoneOfThoseThatAreKept) {
  constexpr size_t count = 4500;  // more than a slice lists
  ASSERT_EQ(put("k/namespace.json", 1), 200);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(put("k" + std::to_string(i), 1), 200);
  const auto info = run(service.store.bucket("bucket"));
  ASSERT_TRUE(info);
  OrderMemory memory(0);
  const auto bound = std::make_shared<Bound>(
      "bucket", info->created_us, info->owner, BoundSettings{.objects_max = 10'000}, [] {}, memory.bucket(info->owner));
  BoundLoad load(bound, service.store);
  std::vector<EvictionOrder::Object> evicted;
  for (bool more = true; more;) {
    more = run(load.go_on(dynamic_cast<store::ChangeFeeds&>(service.store))).value();
    std::ranges::move(load.take_crowded_out(), std::back_inserter(evicted));
  }
  EXPECT_TRUE(bound->is_loaded());
  EXPECT_GT(evicted.size(), count / 2);
  EXPECT_EQ(std::ranges::count(evicted, "k/namespace.json", &EvictionOrder::Object::key), 0) << "the oldest";
}

// One row that did not decode kept its bucket from being loaded, and so every write into it waiting.
TEST_F(BoundsTest, ALoadGoesOnOverADamagedRow) {
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_EQ(put(key), 200);
  const auto info = run(service.store.bucket("bucket"));
  ASSERT_TRUE(info);
  store.damage_object("bucket", "b");
  const uint64_t told = metrics::counter("verbena_damaged_keys_total", "").value();
  for (int i = 0; i < 2; ++i) {
    const auto bound =
        std::make_shared<Bound>("bucket", info->created_us, info->owner, BoundSettings{.objects_max = 10}, [] {});
    BoundLoad load(bound, service.store);
    for (bool more = true; more;) {
      const auto done = run(load.go_on(dynamic_cast<store::ChangeFeeds&>(service.store)));
      ASSERT_TRUE(done) << describe(done.error());
      more = *done;
    }
    EXPECT_TRUE(bound->is_loaded());
    EXPECT_EQ(bound->held().objects, 3U);
  }
  EXPECT_EQ(metrics::counter("verbena_damaged_keys_total", "").value() - told, 1U);
}

// It was chosen again at each look, and the log told of it each time.
TEST_F(BoundsTest, AnObjectWhoseRowIsDamagedIsChosenOnce) {
  ASSERT_EQ(bind("<MaxObjects>3</MaxObjects><Policy>lru</Policy>"), 200);
  for (const char* key : {"bad", "b", "c"}) ASSERT_EQ(put(key), 200);
  store.damage_object("bucket", "bad");
  for (const char* key : {"d", "e", "f", "g"}) ASSERT_EQ(put(key), 200);
  EXPECT_TRUE(soon([&] { return service.bounds->all().front()->held().objects <= 3; }));
  for (const char* key : {"e", "f", "g"}) EXPECT_TRUE(has(key)) << key;
}

// As evictions are that a full event queue refuses.
TEST_F(BoundsTest, ABucketWhoseEvictionsAreRefusedPausesAlone) {
  EventQueues queues({{"hook", "webhook"}}, {.events_max = 4, .bytes_max = 1 * MiB});
  service.events = &queues;
  ASSERT_EQ(send("PUT", "/stuck").status, 200);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(send("PUT", "/stuck/k" + std::to_string(i), "x").status, 200);
  ASSERT_EQ(send("PUT", "/stuck?notification",
                 "<NotificationConfiguration><QueueConfiguration><Queue>arn:verbena:sqs::hook:webhook</Queue>"
                 "<Event>s3:LifecycleExpiration:*</Event></QueueConfiguration></NotificationConfiguration>")
                .status,
            200);
  const std::string bound = "<BoundConfiguration><MaxObjects>2</MaxObjects></BoundConfiguration>";
  ASSERT_EQ(send("PUT", "/stuck?verbena-bound", bound).status, 200);
  const auto stuck = [&] { return service.store.usage_now("stuck")->bucket.objects; };
  EXPECT_TRUE(soon([&] { return stuck() < 40; }));
  ASSERT_EQ(bind("<MaxObjects>4</MaxObjects>"), 200);
  const auto from = std::chrono::steady_clock::now();
  for (int i = 0; i < 60; ++i) ASSERT_EQ(put("k" + std::to_string(i)), 200);
  // A pause of up to half a second at each of them.
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(15));
  EXPECT_GT(stuck(), 2U) << "nothing was refused";
  worker_->stop();
  service.events = nullptr;
}

// A hot key filled the list of renewals, so that other keys ended while they were read.
TEST(RenewOnRead, EachKeyWhoseRenewalIsDueIsNotedOnceAndNoOther) {
  class Clock final : public WallClock {
   public:
    int64_t now_us() const override { return 1'000'000'000; }
  };
  const Clock clock;
  const auto object = [](int64_t ttl_s, int64_t left_s) {
    store::ObjectInfo info;
    if (ttl_s == 0) return info;
    info.headers.emplace_back(store::ttl_header, std::to_string(ttl_s));
    info.headers.emplace_back(store::expires_header, std::to_string(1000 + left_s));
    return info;
  };
  Bound bound("bucket", 1, "", {.renew_on_read = true}, [] {});
  for (int i = 0; i < 10'000; ++i) {
    bound.note_read("hot", object(100, 80), clock);
    bound.note_read("renewed just now", object(100, 95), clock);
    bound.note_read("without a TTL", object(0, 0), clock);
  }
  bound.note_read("another", object(100, 90), clock);
  auto keys = bound.take_due_keys(512);
  std::ranges::sort(keys);
  EXPECT_EQ(keys, (std::vector<std::string>{"another", "hot"}));
  EXPECT_TRUE(bound.take_due_keys(512).empty());
  bound.change({.objects_max = 5});
  bound.note_read("hot", object(100, 80), clock);
  EXPECT_TRUE(bound.take_due_keys(512).empty()) << "reads renew nothing any more";
}

TEST(BucketBounds, ADocumentThatWasReadBeforeAChangeBringsNothingBack) {
  BucketBounds bounds;
  const auto text = [](uint64_t max) { return std::make_shared<const std::string>(bound_xml({.objects_max = max})); };
  ASSERT_EQ(bounds.of("b", 1, "", nullptr, 5).value(), nullptr);
  const BoundPtr set = bounds.of("b", 1, "", text(10), 7).value();
  EXPECT_EQ(bounds.of("b", 1, "", nullptr, 6).value(), set) << "took the bound away";
  EXPECT_EQ(bounds.of("b", 1, "", text(99), 6).value(), set);
  EXPECT_EQ(set->settings().objects_max, 10U);
  EXPECT_FALSE(set->is_gone());
  EXPECT_EQ(bounds.of("b", 1, "", text(20), 7).value(), set);
  EXPECT_EQ(set->settings().objects_max, 20U);
  EXPECT_EQ(bounds.of("b", 1, "", nullptr, 8).value(), nullptr);
  EXPECT_TRUE(set->is_gone());
  EXPECT_EQ(bounds.of("b", 1, "", text(20), 7).value(), nullptr) << "brought the old bound back";
  EXPECT_TRUE(bounds.all().empty());
  EXPECT_NE(bounds.of("b", 1, "", text(30), 9).value(), nullptr);
}

TEST(BoundLoad, TheOldestOfManyListsCanBeTakenFirst) {
  ByAge all;
  for (int list = 0; list < 10; ++list) {
    std::vector<EvictionOrder::Object> objects;
    for (int i = 0; i < 10; ++i) objects.push_back({.key = "k", .time_us = i * 10 + list});
    all.add(std::move(objects));
  }
  for (int64_t i = 0; i < 40; ++i) {
    const auto oldest = all.take_oldest(1);
    ASSERT_EQ(oldest.size(), 1U);
    EXPECT_EQ(oldest.front().time_us, i);
  }
  const auto some = all.take_oldest(16);
  ASSERT_EQ(some.size(), 6U) << "what one list has";
  EXPECT_EQ(some.front().time_us, 40);
  for (int64_t i = 99; i >= 40; --i) {
    if (i % 10 == 0) continue;
    const auto youngest = all.take(1);
    ASSERT_EQ(youngest.size(), 1U);
    EXPECT_EQ(youngest.front().time_us, i);
  }
  EXPECT_TRUE(all.empty());
  EXPECT_TRUE(all.take_oldest(1).empty());
}

TEST(BoundLoad, ObjectsOfManyListsComeByAge) {
  ByAge all;
  for (int list = 0; list < 10; ++list) {
    std::vector<EvictionOrder::Object> objects;
    for (int i = 0; i < 10; ++i) objects.push_back({.key = "k", .time_us = (i * 37 + list * 11) % 100});
    all.add(std::move(objects));
  }
  all.add({});
  all.add({{.key = "renewed", .time_us = 1, .renewed_us = 500}});
  std::vector<EvictionOrder::Object> taken;
  while (!all.empty()) {
    auto some = all.take(7);
    EXPECT_LE(some.size(), 7U);
    std::ranges::move(some, std::back_inserter(taken));
  }
  ASSERT_EQ(taken.size(), 101U);
  EXPECT_EQ(taken.front().key, "renewed");
  for (size_t i = 2; i < taken.size(); ++i) EXPECT_GE(taken[i - 1].time_us, taken[i].time_us);
}

}  // namespace
}  // namespace verbena::s3::test
