// The machine stops at every operation that changes the disk while objects with subscribed events are put: afterwards
// each existing object has its event, and no other event exists. And what the disk loses of one bucket holds up no
// other bucket's events.
#include <set>

#include "base/log.h"
#include "store/event.h"
#include "store/local/test_aside.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

constexpr int objects_put = 8;
constexpr uint64_t operations_max = 2000, step = 5;

class Named final : public Announcement {
 public:
  explicit Named(std::string text) : text_(std::move(text)) {}
  Result<std::vector<EventRow>> events(const Happened&) const override { return std::vector<EventRow>{{"q", text_}}; }
  void committed(uint64_t, const std::vector<EventRow>&) const override {}

 private:
  const std::string text_;
};

std::string name_of(int i) { return "k" + std::to_string(100 + i); }

std::set<std::string> put_objects(TestStore& t) {
  std::set<std::string> acknowledged;
  for (int i = 0; i < objects_put; ++i) {
    CommitConditions conditions;
    conditions.announcement = std::make_shared<const Named>(name_of(i));
    // Both kinds: bytes in the index, and in a volume.
    const std::string bytes = conformance::pattern(i % 2 == 0 ? 300 : 70'000, static_cast<uint64_t>(i));
    if (t.put("b", name_of(i), bytes, {.conditions = conditions, .size_hint = {}, .etag = "e"})) {
      acknowledged.insert(name_of(i));
    }
  }
  return acknowledged;
}

std::vector<std::string> told(TestStore& t) {
  std::vector<std::string> records;
  const auto backlog = t.run(t.store->event_backlog("q"));
  if (!backlog) return {"no backlog"};
  for (const auto& one : *backlog) {
    const auto events = t.run(t.store->events("q", one.bucket, 0, 1000, 1 * MiB));
    if (!events) return {"no events"};
    for (const auto& event : *events) records.push_back(event.record);
  }
  return records;
}

// False: the workload has fewer operations.
bool stop_at(uint64_t n) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.options.volume_size_max = 1 * MiB;
  t.open();
  t.make_bucket("b");
  fs.fail_at(n, FaultyFileSystem::Fault::crash);
  const std::set<std::string> acknowledged = put_objects(t);
  const bool happened = fs.fault_happened();
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, n);
  t.open();
  std::vector<std::string> there;
  for (int i = 0; i < objects_put; ++i) {
    if (t.get("b", name_of(i))) there.push_back(name_of(i));
  }
  EXPECT_EQ(told(t), there) << "objects and events go together, in the order of the changes";
  for (const auto& name : acknowledged) EXPECT_EQ(std::ranges::count(there, name), 1) << name;
  return happened;
}

TEST(EventCrash, AtEveryOperationThereIsAnEventForEachObjectAndForNoOther) {
  log::set_level(log::Level::error);
  uint64_t n = 0;
  for (; n < operations_max; n += step) {
    SCOPED_TRACE("operation " + std::to_string(n));
    if (!stop_at(n) || HasFailure()) break;
  }
  log::set_level(log::Level::info);
  EXPECT_GT(n, 10u);
  EXPECT_LT(n, operations_max);
}

// One volume that could not be synced stopped the events of all buckets until the next start.
TEST(EventsOnDisk, OfOneBucketWhoseBytesMayBeLostHoldUpNoOtherBuckets) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("scratch", Durability::memory);
  t.make_bucket("b");
  const auto put = [&](const std::string& bucket) {
    CommitConditions conditions;
    conditions.announcement = std::make_shared<const Named>(bucket);
    const std::string bytes = conformance::pattern(70'000, 1);
    return t.put(bucket, "k", bytes, {.conditions = conditions, .size_hint = {}, .etag = "e"}).has_value();
  };
  const auto of = [&](const EventBacklog& one) { return t.run(t.store->events("q", one.bucket, 0, 10, 1 * MiB)); };
  log::set_level(log::Level::error);
  ASSERT_TRUE(put("scratch"));
  const auto first = t.run(t.store->event_backlog("q"));
  ASSERT_TRUE(first && first->size() == 1);
  fs.fail_syncs("/store/volumes");
  EXPECT_FALSE(of(first->front()));
  fs.fail_syncs("");
  EXPECT_FALSE(of(first->front())) << "its bytes may be lost";
  ASSERT_TRUE(put("b"));
  const auto both = t.run(t.store->event_backlog("q"));
  ASSERT_TRUE(both && both->size() == 2);
  const auto events = of(both->back());
  ASSERT_TRUE(events) << describe(events.error());
  EXPECT_EQ(events->size(), 1u);
  log::set_level(log::Level::info);
}

TEST(EventsOnDisk, OfBytesThatMayBeLostAreNotToldAfterASyncOfHolesInTheirVolume) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b", Durability::memory);
  CommitConditions conditions;
  conditions.announcement = std::make_shared<const Named>("k");
  log::set_level(log::Level::error);
  fs.fail_syncs("/store/volumes");
  const std::string bytes = conformance::pattern(70'000, 1);
  ASSERT_TRUE(t.put("b", "k", bytes, {.conditions = conditions, .size_hint = {}, .etag = "e"}));
  ASSERT_TRUE(t.put("b", "other", bytes));
  t.store->drain();
  const auto waiting = t.run(t.store->event_backlog("q"));
  ASSERT_TRUE(waiting && waiting->size() == 1);
  const auto are_told = [&] {
    return t.run(t.store->events("q", waiting->front().bucket, 0, 10, 1 * MiB)).has_value();
  };
  EXPECT_FALSE(are_told());
  fs.fail_syncs("");
  ASSERT_TRUE(t.remove("b", "other"));
  t.store->drain();  // its space is freed
  EXPECT_FALSE(are_told());
  log::set_level(log::Level::info);
}

// Between the bucket's new durability and the sync of what had come until then; and after that sync failed.
TEST(EventsOnDisk, OfBytesThatMayBeLostAreNotToldBecauseTheBucketIsSyncByNow) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b", Durability::memory);
  const auto put = [&](const std::string& key) {
    CommitConditions conditions;
    conditions.announcement = std::make_shared<const Named>(key);
    const std::string bytes = conformance::pattern(70'000, 1);
    return t.put("b", key, bytes, {.conditions = conditions, .size_hint = {}, .etag = "e"}).has_value();
  };
  log::set_level(log::Level::error);
  ASSERT_TRUE(put("first"));
  fs.hold_syncs("/store/index");
  Aside change(t.store->set_durability("b", Durability::sync));
  fs.wait_for_held_sync();  // the volumes' is over
  ASSERT_TRUE(put("after it"));
  fs.fail_syncs("/store/volumes");
  fs.release_syncs();
  EXPECT_FALSE(change.finish());
  fs.fail_syncs("");
  EXPECT_EQ(t.run(t.store->bucket("b"))->durability, Durability::sync);
  const auto waiting = t.run(t.store->event_backlog("q"));
  ASSERT_TRUE(waiting && waiting->size() == 1);
  EXPECT_FALSE(t.run(t.store->events("q", waiting->front().bucket, 0, 10, 1 * MiB)));
  log::set_level(log::Level::info);
}

}  // namespace
}  // namespace verbena::store::local
