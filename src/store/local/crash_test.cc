// The machine stops at every operation that changes the disk, one run for each; then the store is opened again and must
// hold exactly what it promised.
#include <map>

#include "base/log.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

// The bucket's document, listed among the keys.
constexpr const char* document_key = "(document)";

Result<std::string> get(TestStore& t, const std::string& key) {
  if (key != document_key) return t.get("b", key);
  auto text = t.document("b", "cors");
  if (!text && text.error() == Errc::not_found) return fail(Errc::no_such_key);
  return text;
}

// The possible values of a key: the value acknowledged last, and those of calls that failed since (a call that fails
// because the machine stops may have been made or not, but only whole). nullopt: no object.
class Expected {
 public:
  void begin(const std::string& key, std::optional<std::string> value) { states(key).push_back(std::move(value)); }
  void acknowledge(const std::string& key) {
    auto& s = states(key);
    s = {s.back()};
  }
  // The call failed while the machine went on: no effect of it may be visible.
  void refuse(const std::string& key) { states(key).pop_back(); }
  const std::map<std::string, std::vector<std::optional<std::string>>>& all() const { return keys_; }

 private:
  std::vector<std::optional<std::string>>& states(const std::string& key) {
    auto& s = keys_[key];
    if (s.empty()) s.push_back(std::nullopt);
    return s;
  }
  std::map<std::string, std::vector<std::optional<std::string>>> keys_;
};

class Workload {
 public:
  Workload(TestStore& t, FaultyFileSystem& fs, Expected& expected) : t_(t), fs_(fs), expected_(expected) {}

  void run() {
    put("large", 150'000, 1);
    put("small", 300, 2);
    put("large", 200'000, 3);  // overwrites extents
    put("small", 100'000, 4);  // index to volume
    put("large", 10, 5);       // volume to index
    multipart("multi", 6);
    put("gone", 70'000, 9);
    remove("gone");
    multipart("multi", 10);
    remove("multi");
    t_.store->drain();
    put("last", 70'000, 11);
    if (t_.options.keep_free != 0) reuse();
    versions();
    document("<Cors/>");
    document("<Cors>2</Cors>");
  }

 private:
  // Nothing is acknowledged after the crash; without one, a failed call must have left nothing.
  bool settle(const std::string& key, bool done) {
    if (done) {
      expected_.acknowledge(key);
    } else if (!fs_.fault_happened()) {
      ADD_FAILURE() << key << " failed without a fault";
    }
    return done;
  }
  bool put(const std::string& key, size_t size, uint64_t seed) {
    std::string bytes = pattern(size, seed);
    expected_.begin(key, bytes);
    return settle(key, t_.put("b", key, bytes).has_value());
  }
  bool remove(const std::string& key) {
    expected_.begin(key, std::nullopt);
    return settle(key, t_.remove("b", key).has_value());
  }
  void reuse() {
    put("again", 200'000, 12);
    put("again", 150'000, 13);
    t_.store->drain();
    put("more", 120'000, 14);
    put("again", 60'000, 15);
  }
  // One key through the states of versioning: its value must be the one acknowledged last.
  void versions() {
    const std::string key = "versioned";
    if (!t_.set_versioning("b", Versioning::enabled)) return;
    if (!put(key, 100'000, 20) || !put(key, 300, 21)) return;
    auto newest = t_.run(t_.store->stat("b", key));
    if (!newest || !remove(key)) return;
    auto marker = t_.run(t_.store->find_version("b", key, ""));
    if (!marker) return;
    // Removes the marker, then the newest version: the one before it is current again.
    if (!remove_version(key, marker->version_id, pattern(300, 21))) return;
    if (!remove_version(key, newest->version_id, pattern(100'000, 20))) return;
    if (!t_.set_versioning("b", Versioning::suspended)) return;
    put(key, 70'000, 22);
    put(key, 80'000, 23);
    t_.store->drain();
  }
  bool remove_version(const std::string& key, const std::string& id, std::string then) {
    expected_.begin(key, std::move(then));
    return settle(key, t_.remove_version("b", key, id).has_value());
  }
  void document(const std::string& text) {
    expected_.begin(document_key, text);
    settle(document_key, t_.set_document("b", "cors", text).has_value());
  }
  void multipart(const std::string& key, uint64_t seed) {
    auto upload = t_.start_upload("b", key);
    if (!upload) return;
    std::string first = pattern(100'000, seed), second = pattern(1000, seed + 1);
    auto one = t_.put_part(*upload, 1, first), unused = t_.put_part(*upload, 2, pattern(66'000, seed + 2)),
         two = t_.put_part(*upload, 3, second);
    if (!one || !unused || !two) return;
    expected_.begin(key, first + second);
    settle(key, t_.complete(*upload, {*one, *two}).has_value());
  }

  TestStore& t_;
  FaultyFileSystem& fs_;
  Expected& expected_;
};

void check(TestStore& t, const Expected& expected) {
  size_t present = 0;
  for (const auto& [key, states] : expected.all()) {
    auto got = get(t, key);
    std::optional<std::string> value;
    if (got) {
      value = *got;
      if (key != document_key) ++present;
    } else {
      ASSERT_EQ(got.error(), Errc::no_such_key) << key << ": " << describe(got.error());
    }
    EXPECT_TRUE(std::find(states.begin(), states.end(), value) != states.end())
        << key << " is " << (value ? std::to_string(value->size()) + " bytes" : "missing");
  }
  auto page = t.list("b");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->entries.size(), present);
  auto uploads = t.run(t.store->list_uploads("b", {}));
  ASSERT_TRUE(uploads);
  for (const UploadInfo& upload : uploads->uploads) {
    EXPECT_TRUE(t.run(t.store->abort_upload("b", upload.key, upload.upload_id)));
  }
  t.expect_no_leak();
}

// Freed space goes back at once, or is used again; or the volumes are on a device.
constexpr uint64_t keeps_none = 0, keeps_all = 1 * GiB, on_device = 2 * GiB;

void set_place(TestStore& t, FaultyFileSystem& fs, uint64_t place) {
  t.options.keep_free = place;
  t.options.volume_size_max = 1 * MiB;
  if (place == on_device) use_device(fs, t.options, 64 * MiB);
}

// Injects the fault at operation n of the workload. False when the workload has fewer operations.
bool crash_at(uint64_t n, Loss loss, uint64_t keep_free) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  set_place(t, fs, keep_free);
  t.open();
  t.make_bucket("b");
  Expected expected;
  fs.fail_at(n, Fault::crash);
  Workload(t, fs, expected).run();
  bool happened = fs.fault_happened();
  t.close();
  fs.crash(loss, n);
  t.open();
  check(t, expected);
  // The store still works.
  EXPECT_TRUE(t.put("b", "afterwards", pattern(80'000, 99)));
  // A volume being written has reserved blocks; ending it frees them, so that any rest is a leak.
  t.reopen();
  EXPECT_TRUE(t.get("b", "afterwards").has_value());
  t.expect_no_leak();
  return happened;
}

// Under sanitizers, which take eight times as long, every fifth operation: their findings depend little on which.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t stride = 5;
#elif defined(__has_feature)
constexpr uint64_t stride = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 5 : 1;
#else
constexpr uint64_t stride = 1;
#endif

struct QuietLog {
  QuietLog() { log::set_level(log::Level::error); }
  ~QuietLog() { log::set_level(log::Level::info); }
};

// Every second operation from 0 or 1 on: two tests that can run side by side.
class Crash : public ::testing::TestWithParam<std::tuple<Loss, uint64_t, uint64_t>> {
  QuietLog quiet_;
};
class Failure : public ::testing::TestWithParam<std::tuple<uint64_t, uint64_t>> {
  QuietLog quiet_;
};

std::string loss_name(const ::testing::TestParamInfo<std::tuple<Loss, uint64_t, uint64_t>>& info) {
  const auto [loss, keep_free, first] = info.param;
  const std::string reusing = std::string(keep_free == keeps_none  ? ""
                                          : keep_free == keeps_all ? "Reusing"
                                                                   : "OnDevice") +
                              (first == 0 ? "" : "Odd");
  switch (loss) {
    case Loss::nothing:
      return reusing + "LosingNothing";
    case Loss::unsynced:
      return reusing + "LosingAllUnsynced";
    case Loss::torn:
      return reusing + "TearingUnsynced";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Power, Crash,
                         ::testing::Combine(::testing::Values(Loss::nothing, Loss::unsynced, Loss::torn),
                                            ::testing::Values(keeps_none, keeps_all, on_device),
                                            ::testing::Values(0, 1)),
                         loss_name);
INSTANTIATE_TEST_SUITE_P(Once, Failure,
                         ::testing::Combine(::testing::Values(keeps_none, keeps_all, on_device),
                                            ::testing::Values(0, 1)));

TEST_P(Crash, AtEveryOperationKeepsWhatWasAcknowledgedAndNothingPartial) {
  // All operations if everything unsynced is lost, which is the harshest; the others in steps, to keep the test short.
  const auto [loss, keep_free, first] = GetParam();
  const uint64_t each = (loss == Loss::unsynced ? 1 : 3) * stride, step = 2 * each;
  uint64_t n = first * each;
  for (; n < 2000; n += step) {
    SCOPED_TRACE("operation " + std::to_string(n));
    if (!crash_at(n, loss, keep_free)) break;
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 50u);
  EXPECT_LT(n, 2000u);
}

// A single failure after which the store continues: refused changes leave nothing, acknowledged ones stay.
void fail_once_at(uint64_t n, Fault fault, uint64_t keep_free, bool* more) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  set_place(t, fs, keep_free);
  t.open();
  t.make_bucket("b");
  Expected expected;
  fs.fail_at(n, fault);
  Workload(t, fs, expected).run();
  *more = fs.fault_happened();
  fs.fail_at(0, Fault::none);
  // Failed changes are not visible now.
  for (const auto& [key, states] : expected.all()) {
    auto got = get(t, key);
    std::optional<std::string> value;
    if (got) value = *got;
    EXPECT_EQ(value, states.front()) << key;
  }
  // A device that had no space for a flush takes no writes before the next start.
  if (fault == Fault::no_space && keep_free != on_device) {
    EXPECT_TRUE(t.put("b", "afterwards", pattern(80'000, 99)));
    expected.begin("afterwards", pattern(80'000, 99));
    expected.acknowledge("afterwards");
  }
  t.close();
  fs.crash(Loss::unsynced, n);
  t.open();
  check(t, expected);
}

TEST_P(Failure, NoSpaceAtAnyOperationIsRefusedCleanly) {
  bool more = true;
  const auto [keep_free, first] = GetParam();
  for (uint64_t n = first * 2 * stride; more && n < 2000 && !HasFailure(); n += 4 * stride) {
    SCOPED_TRACE("operation " + std::to_string(n));
    fail_once_at(n, Fault::no_space, keep_free, &more);
  }
}

TEST_P(Failure, AnIoErrorAtAnyOperationLosesNothingAcknowledged) {
  bool more = true;
  const auto [keep_free, first] = GetParam();
  for (uint64_t n = 1 + first * 2 * stride; more && n < 2000 && !HasFailure(); n += 4 * stride) {
    SCOPED_TRACE("operation " + std::to_string(n));
    fail_once_at(n, Fault::io_error, keep_free, &more);
  }
}

}  // namespace
}  // namespace verbena::store::local
