// The order of reads among changes of a `memory` bucket, some acknowledged before the index has them.
#include <semaphore>
#include <thread>

#include "base/metrics.h"
#include "store/local/test_aside.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;

// Stops the commit thread after a change is visible and before the effects of those that follow it in its group.
class CommitGate final : public ChangeListener {
 public:
  void told(uint64_t, const KeyChangePtr&) override {
    arrived_.release();
    go_.acquire();
  }
  void lost_track(uint64_t) override {}
  void bucket_removed(uint64_t) override {}
  void wait() { arrived_.acquire(); }
  void let_go() { go_.release(); }

 private:
  std::counting_semaphore<> arrived_{0}, go_{0};
};

class AcknowledgedRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    t.options.write_behind_after = 1h;
    t.open();
    t.make_bucket("b", Durability::memory);
    t.make_bucket("other", Durability::memory);
    ASSERT_TRUE((*t.store->feed("other"))->listen(gate));
  }
  // Nothing is committed from hold() to let_go(): what settles meanwhile waits, and goes on when its loop runs again.
  void hold() {
    held.emplace(put_in_index("other", "w", "w"));
    gate->wait();
  }
  void let_go() {
    gate->let_go();
    EXPECT_TRUE(held->finish());
  }
  // Acknowledged from memory.
  void put(const std::string& key, std::string_view bytes) {
    const uint64_t before = taken_early();
    ASSERT_TRUE(t.put("b", key, bytes, {.conditions = {}, .size_hint = bytes.size(), .etag = {}}));
    ASSERT_GT(taken_early(), before);
  }
  Task<Result<ObjectInfo>> put_in_index(std::string bucket, std::string key, std::string bytes) {
    return local::put_in_index(t, std::move(bucket), std::move(key), std::move(bytes));
  }
  static uint64_t taken_early() { return metrics::counter("verbena_store_write_behind_total", "").value(); }
  static int64_t waiting_bytes() { return metrics::gauge("verbena_store_write_behind_bytes", "").value(); }
  static void wait_until_written() {
    while (waiting_bytes() != 0) std::this_thread::sleep_for(1ms);
  }
  std::string etag(const std::string& key) {
    auto info = t.run(t.store->stat("b", key));
    return info ? info->etag : describe(info.error());
  }
  static std::string etag(const Result<ListPage>& page, const std::string& key) {
    if (!page) return describe(page.error());
    const auto found = std::ranges::find(page->entries, key, &ListEntry::key);
    return found == page->entries.end() ? "none" : found->info.etag;
  }
  FaultyFileSystem fs;
  TestStore t{&fs};
  const std::shared_ptr<CommitGate> gate = std::make_shared<CommitGate>();
  std::optional<Aside<Result<ObjectInfo>>> held;
};

// The page once showed the index as of later than what it waited for: a change by the index without the PUT of another
// key that was acknowledged, and read, before that change was made.
TEST_F(AcknowledgedRowsTest, APageThatShowsAChangeShowsWhatWasAcknowledgedBeforeIt) {
  put("a", "1");
  hold();
  Aside page(t.store->list("b", {}));
  Aside versions(t.store->list_versions("b", {}));
  let_go();
  wait_until_written();
  put("z", "acknowledged");
  ASSERT_TRUE(t.run(put_in_index("b", "a", "22")));
  EXPECT_EQ(etag("z"), TestStore::etag_of("acknowledged"));
  const auto shown = page.finish();
  EXPECT_EQ(etag(shown, "a"), TestStore::etag_of("22"));
  EXPECT_EQ(etag(shown, "z"), TestStore::etag_of("acknowledged"));
  EXPECT_EQ(versions.finish()->versions.size(), 2u);
  EXPECT_GT(waiting_bytes(), 0);
}

std::string text_of(const Result<ListPage>& page) {
  if (!page) return describe(page.error());
  std::string text;
  for (const auto& [key, info] : page->entries) {
    text += key + "=" + info.etag + "@" + std::to_string(info.modified_us) + " ";
  }
  for (const std::string& prefix : page->common_prefixes) text += prefix + " ";
  return text + (page->truncated ? "after " + page->next_after : "");
}

std::string text_of(const Result<VersionPage>& page) {
  if (!page) return describe(page.error());
  std::string text;
  for (const auto& [key, info, latest] : page->versions) {
    text += key + "=" + info.etag + "@" + std::to_string(info.modified_us) + info.version_id + (latest ? "! " : " ");
  }
  for (const std::string& prefix : page->common_prefixes) text += prefix + " ";
  return text + (page->truncated ? "after " + page->next_key_marker + page->next_version_id_marker : "");
}

TEST_F(AcknowledgedRowsTest, APageIsTheSameBeforeTheIndexHasWhatItShowsAndAfterwards) {
  std::vector<ListRequest> requests;
  std::vector<ListVersionsRequest> of_versions;
  for (const char* prefix : {"", "d/", "m"}) {
    for (const char* delimiter : {"", "/"}) {
      for (const char* after : {"", "a0", "d/", "d/1", "m"}) {
        for (const int max_keys : {1, 3, 1000}) {
          requests.push_back({prefix, delimiter, after, max_keys});
          of_versions.push_back({prefix, delimiter, after, {}, max_keys});
          of_versions.push_back({prefix, delimiter, after, *after != '\0' ? "null" : "", max_keys});
        }
      }
    }
  }
  for (const char* key : {"b", "d/1", "d/3", "m", "y"}) ASSERT_TRUE(t.run(put_in_index("b", key, key)));
  std::deque<Aside<Result<ListPage>>> pages;
  std::deque<Aside<Result<VersionPage>>> version_pages;
  put("m", "waited for");
  hold();
  for (const auto& request : requests) pages.emplace_back(t.store->list("b", request));
  for (const auto& request : of_versions) version_pages.emplace_back(t.store->list_versions("b", request));
  let_go();
  wait_until_written();
  for (const char* key : {"a0", "d/0", "d/1", "d/2", "m", "m", "m2", "z"}) put(key, std::string("new ") + key);
  std::vector<std::string> shown;
  for (auto& page : pages) shown.push_back(text_of(page.finish()));
  for (auto& page : version_pages) shown.push_back(text_of(page.finish()));
  EXPECT_GT(waiting_bytes(), 0);
  t.store->drain();
  size_t at = 0;
  for (const auto& request : requests) EXPECT_EQ(shown[at++], text_of(t.list("b", request)));
  for (const auto& request : of_versions) EXPECT_EQ(shown[at++], text_of(t.list_versions("b", request)));
}

// A change that settled its key before an object was acknowledged, and reached the commit thread after it: both once
// became visible together, and look-ups that ask memory first returned the object after others had returned the change.
TEST_F(AcknowledgedRowsTest, AChangeIsNotVisibleInTheIndexBeforeTheObjectThatItReplacesHasLeft) {
  put("s", pattern(100'000, 1));  // there is a volume
  t.store->drain();
  put("k", "1");
  hold();
  Aside change(put_in_index("b", "k", "a change"));
  Aside page(t.store->list("b", {.prefix = "k", .delimiter = {}, .after = {}}));
  Aside null_version(t.store->stat("b", "k", "null"));
  let_go();
  wait_until_written();  // all three have settled

  hold();
  Aside first(put_in_index("other", "x", "x"));  // of the next group
  put("k", "an object");
  put("s", pattern(100'000, 2));
  const uint64_t changes = fs.space_changes("/store/volumes");
  std::jthread drains([this] { t.store->drain(); });
  while (fs.space_changes("/store/volumes") == changes) std::this_thread::sleep_for(1ms);
  change.go_on();  // behind the object in the queue, since the bytes of "s" are written after that was submitted
  gate->let_go();
  gate->wait();

  EXPECT_EQ(null_version.finish()->etag, TestStore::etag_of("1"));
  EXPECT_EQ(etag(page.finish(), "k"), TestStore::etag_of("an object"));
  EXPECT_EQ(etag("k"), TestStore::etag_of("an object"));
  let_go();
  EXPECT_TRUE(change.finish());
  EXPECT_TRUE(first.finish());
  drains.join();
  EXPECT_EQ(etag("k"), TestStore::etag_of("a change"));
}

// An object that was acknowledged while the rename waited once hid the rename of one key, after both had been read.
TEST_F(AcknowledgedRowsTest, ARenameReplacesWhatWasAcknowledgedWhileTheOldNameWasStillThere) {
  put("from", "moved");
  hold();
  Aside rename(t.store->rename("b", {.from = "from", .to = "to"}));
  let_go();
  wait_until_written();
  ASSERT_TRUE(t.put("b", "to", "replaced", {.conditions = {}, .size_hint = 8, .etag = {}}));
  EXPECT_EQ(etag("to"), TestStore::etag_of("replaced"));
  EXPECT_EQ(etag("from"), TestStore::etag_of("moved"));
  ASSERT_TRUE(rename.finish());
  EXPECT_EQ(etag("to"), TestStore::etag_of("moved"));
  EXPECT_EQ(t.run(t.store->stat("b", "from")).error(), Errc::no_such_key);
  put("to", "from memory again");
}

// Removals of objects that wait, by turns with other changes: once a group, and in a `sync` bucket a sync, for each.
class AcknowledgedGroups : public AcknowledgedRowsTest {
 protected:
  static constexpr int count = 20;
  void SetUp() override {
    AcknowledgedRowsTest::SetUp();
    t.make_bucket("third", Durability::memory);
    for (int i = 0; i < count; ++i) put(key(i), "waits");
  }
  static std::string key(int i) { return "k" + std::to_string(i); }
  static uint64_t groups() { return metrics::counter("verbena_store_commit_groups_total", "").value(); }
  // Commits them behind one change of another bucket, and returns in how many groups.
  uint64_t commit_by_turns(const std::string& bucket) {
    hold();
    const uint64_t before = groups();
    std::deque<Aside<Result<Removed>>> removals;
    std::deque<Aside<Result<ObjectInfo>>> puts;
    for (int i = 0; i < count; ++i) {
      removals.emplace_back(t.store->remove("b", key(i), {}));
      puts.emplace_back(put_in_index(bucket, "other-" + key(i), "x"));
    }
    let_go();
    for (auto& one : removals) EXPECT_TRUE(one.finish());
    for (auto& one : puts) EXPECT_TRUE(one.finish());
    return groups() - before - 1;
  }
  void expect_changes(const std::string& bucket) {
    EXPECT_EQ(t.list("b", {.prefix = "k", .delimiter = {}, .after = {}})->entries.size(), 0u);
    EXPECT_EQ(t.list(bucket, {.prefix = "other-", .delimiter = {}, .after = {}})->entries.size(), size_t{count});
    t.reopen();
    EXPECT_EQ(t.list("b", {.prefix = "k", .delimiter = {}, .after = {}})->entries.size(), 0u);
    EXPECT_EQ(t.list(bucket, {.prefix = "other-", .delimiter = {}, .after = {}})->entries.size(), size_t{count});
  }
};

TEST_F(AcknowledgedGroups, RemovalsOfWhatWaitsAndChangesOfAnotherBucketAreTwoGroups) {
  EXPECT_EQ(commit_by_turns("third"), 2u);
  expect_changes("third");
}

TEST_F(AcknowledgedGroups, ThoseOfOneBucketStayInTheirOrder) {
  EXPECT_EQ(commit_by_turns("b"), 2u * count);
  expect_changes("b");
}

}  // namespace
}  // namespace verbena::store::local
