// Flipped bits and missing files: a start either has everything acknowledged, or refuses and changes nothing. An end of
// the log that a power loss tore off is no damage.
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "store/local/engine.h"
#include "store/local/fsck.h"
#include "store/local/index_check.h"
#include "store/local/log_scan.h"
#include "store/local/record.h"
#include "store/local/seam_env.h"
#include "store/local/test_store.h"
#include "store/logic/usage.h"

namespace verbena::store::local {
namespace {

constexpr int objects = 200;

std::string key_of(int i) { return "k" + std::to_string(i); }
std::string value_of(int i) { return pattern(120, static_cast<uint64_t>(i)); }

class StartAfterDamage : public ::testing::Test {
 protected:
  StartAfterDamage() : t(&fs) { t.options.trouble = &trouble; }

  // 200 small objects in the log, a large one in a volume.
  void fill(Durability durability = Durability::sync) {
    t.open();
    t.make_bucket("b", durability);
    ASSERT_TRUE(t.put("b", "large", pattern(300'000, 7)));
    for (int i = 0; i < objects; ++i) ASSERT_TRUE(t.put("b", key_of(i), value_of(i)));
    t.close();
  }

  std::string newest(const std::string& suffix, const std::string& prefix = "") {
    std::string found;
    const auto listed = fs.list("/store/index");
    if (!listed) return {};
    for (const std::string& name : *listed) {
      if (name.ends_with(suffix) && name.starts_with(prefix)) found = std::max(found, name);
    }
    return "/store/index/" + found;
  }
  uint64_t size_of(const std::string& path) { return fs.stat(path)->size; }

  // All files but the locks.
  std::map<std::string, std::string> snapshot() {
    std::map<std::string, std::string> files;
    for (const std::string folder : {"/store", "/store/index", "/store/volumes"}) {
      const auto listed = fs.list(folder);
      if (!listed) continue;
      for (const std::string& name : *listed) {
        const std::string path = folder + "/" + name;
        if (name == "LOCK" || *fs.is_directory(path)) continue;
        auto bytes = read_small_file(fs, path, 64 * MiB);
        files[path] = bytes ? *bytes : describe(bytes.error());
      }
    }
    return files;
  }

  // Counts the readable objects; none may be wrong.
  int readable() {
    int count = 0;
    for (int i = 0; i < objects; ++i) {
      auto got = t.get("b", key_of(i));
      if (!got) continue;
      EXPECT_TRUE(*got == value_of(i)) << i;
      ++count;
    }
    return count;
  }

  void expect_refused(const std::string& names) {
    const auto before = snapshot();
    trouble.clear();
    const auto opened = t.try_open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error(), Errc::corrupt_object);
    EXPECT_NE(trouble.find(names), std::string::npos) << trouble;
    EXPECT_TRUE(snapshot() == before) << "the refused start changed something";
  }

  // Flips single bits all over a file: each start refuses, or has everything. Returns how many refused.
  int sweep(const std::string& path, uint64_t step) {
    int refused = 0;
    const auto files = snapshot();
    for (uint64_t at = 0; at < files.at(path).size(); at += step) {
      FaultyFileSystem copy;
      TestStore other(&copy);
      for (const auto& [name, bytes] : files) write(copy, name, bytes);
      copy.flip_bit(path, at * 8 % 8 + at);
      if (!other.try_open()) {
        ++refused;
        continue;
      }
      for (int i = 0; i < objects; ++i) {
        auto got = other.get("b", key_of(i));
        // A table may have rot that was not read yet: that is an error of the object, never "no such key".
        if (got) {
          EXPECT_TRUE(*got == value_of(i)) << path << " byte " << at;
        } else {
          EXPECT_NE(got.error(), Errc::no_such_key) << path << " byte " << at << " key " << i;
          EXPECT_NE(got.error(), Errc::no_such_bucket) << path << " byte " << at;
        }
      }
      EXPECT_TRUE(other.get("b", "large").value_or(pattern(300'000, 7)) == pattern(300'000, 7));
    }
    return refused;
  }

  // Where the next record of the log begins: behind the last byte that is not zero.
  uint64_t end_of_log() {
    const auto bytes = read_small_file(fs, newest(".log"), 64 * MiB);
    return bytes ? bytes->find_last_not_of('\0') + 1 : 0;
  }
  // A bit of the change that was made when the log ended at `begin`.
  void damage_change_at(uint64_t begin) { fs.flip_bit(newest(".log"), begin + 20); }

  // A start that goes on with what can be read of the log, and ends before anything else: the log is whole then.
  void replay_and_end() {
    const auto env = make_seam_env(fs);
    std::vector<std::string> behind;
    const auto keep = [&](std::string_view batch) { behind.emplace_back(batch); };
    const auto needed = [&] { return Index::first_log_needed("/store/index", env.get()); };
    const auto files = check_index_files(fs, "/store/index", needed, keep);
    ASSERT_TRUE(files && files->log_damaged);
    auto index = Index::open({.directory = "/store/index", .env = env.get(), .log = LogMode::around_damage});
    ASSERT_TRUE(index && (*index)->replay(behind));
  }
  void expect_usage(const std::string& bucket, const Usage& wanted) {
    for (int i = 0; i < 10'000 && !t.engine().usage_now(bucket)->bucket_counted; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(t.usage(bucket).value_or(Usage{}), wanted);
    EXPECT_EQ(t.engine().usage_now(bucket)->owner, wanted);
  }

  // Some of everything that a bucket may have.
  void fill_bucket(const std::string& bucket) {
    ASSERT_TRUE(t.set_document(bucket, "policy", "{}"));
    ASSERT_TRUE(t.put(bucket, "large", pattern(300'000, 7)));
    ASSERT_TRUE(t.put(bucket, "small", "x"));
    const auto upload = t.start_upload(bucket, "parts");
    ASSERT_TRUE(upload && t.put_part(*upload, 1, pattern(100'000, 1)));
    const auto completed = t.start_upload(bucket, "of parts");
    ASSERT_TRUE(completed);
    const auto part = t.put_part(*completed, 1, pattern(6 * MiB, 2));
    ASSERT_TRUE(part && t.complete(*completed, {*part}));
    ASSERT_TRUE(t.set_versioning(bucket, Versioning::suspended));
    ASSERT_TRUE(t.put(bucket, "large", pattern(200'000, 8)));
    ASSERT_TRUE(t.set_versioning(bucket, Versioning::enabled));
    ASSERT_TRUE(t.put(bucket, "large", pattern(200'000, 9)));
  }
  void expect_nothing_left(Family family, const std::string& prefix = "") {
    const auto engine = std::make_shared<Engine>(t.options);
    ASSERT_TRUE(engine->start());
    for (Cursor cursor = engine->index->cursor(family, prefix); cursor.valid(); cursor.next()) {
      EXPECT_TRUE(cursor.key().empty()) << static_cast<int>(family);
    }
  }

  static void write(FaultyFileSystem& to, const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(to.make_directory(std::filesystem::path(path).parent_path()));
    auto file = to.open(path, {.write = true, .create = true, .truncate = true});
    ASSERT_TRUE(file);
    ASSERT_TRUE(write_fully(**file, as_bytes(bytes), 0));
  }

  FaultyFileSystem fs;
  TestStore t;
  std::string trouble;
};

TEST_F(StartAfterDamage, AFlippedBitInTheMiddleOfTheLogIsRefusedAndNamedAndNothingIsTouched) {
  fill();
  const std::string log = newest(".log");
  const uint64_t middle = size_of(log) / 2;
  fs.flip_bit(log, middle);
  expect_refused(log);
  EXPECT_NE(trouble.find("accept_data_loss"), std::string::npos) << trouble;
  // After the repair everything is there.
  fs.flip_bit(log, middle);
  t.open();
  EXPECT_EQ(readable(), objects);
  EXPECT_TRUE(*t.get("b", "large") == pattern(300'000, 7));
}

TEST_F(StartAfterDamage, AcceptedLossKeepsAllButTheDamagedChange) {
  fill();
  const std::string log = newest(".log");
  fs.flip_bit(log, size_of(log) / 2);
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_GE(readable(), objects - 1);
  EXPECT_TRUE(*t.get("b", "large") == pattern(300'000, 7));
  // New ids differ from all that the log may have forgotten, and the next start needs no option.
  ASSERT_TRUE(t.put("b", "new", pattern(200'000, 8)));
  t.options.accept_data_loss = false;
  t.reopen();
  EXPECT_GE(readable(), objects - 1);
  EXPECT_TRUE(*t.get("b", "new") == pattern(200'000, 8));
}

// Its documents belonged to no bucket: each start refused, whatever it was allowed. And nothing freed its objects.
TEST_F(StartAfterDamage, OfABucketWhoseCreationIsLostNothingIsLeft) {
  t.open();
  t.make_bucket("other");
  ASSERT_TRUE(t.put("other", "k", "kept"));
  const uint64_t creation = end_of_log();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_document("b", "policy", "{}"));
  ASSERT_TRUE(t.put("b", "large", pattern(300'000, 7)));
  const auto upload = t.start_upload("b", "parts");
  ASSERT_TRUE(upload && t.put_part(*upload, 1, pattern(100'000, 1)));
  t.close();
  damage_change_at(creation);
  expect_refused("accept_data_loss");
  t.options.accept_data_loss = true;
  ASSERT_TRUE(t.try_open());
  EXPECT_EQ(t.run(t.store->bucket("b")).error(), Errc::no_such_bucket);
  t.make_bucket("b");
  EXPECT_EQ(t.document("b", "policy").error(), Errc::not_found);
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
  t.options.accept_data_loss = false;
  t.reopen();
  EXPECT_TRUE(t.get("other", "k").value_or("") == "kept");
}

TEST_F(StartAfterDamage, OfABucketWhoseRemovalIsLostAndWhoseNameIsUsedAgainNothingIsLeft) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_document("b", "policy", "{}"));
  const auto upload = t.start_upload("b", "parts");
  ASSERT_TRUE(upload && t.put_part(*upload, 1, pattern(100'000, 1)));
  t.store->drain();
  const uint64_t removal = end_of_log();
  ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "new", pattern(100'000, 2)));
  t.close();
  damage_change_at(removal);
  t.options.accept_data_loss = true;
  ASSERT_TRUE(t.try_open());
  EXPECT_EQ(t.document("b", "policy").error(), Errc::not_found);
  EXPECT_TRUE(t.get("b", "new").value_or("") == pattern(100'000, 2));
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, align_up(100'000));
}

TEST_F(StartAfterDamage, OfAnUploadWhoseBeginningIsLostNoPartIsLeft) {
  t.open();
  t.make_bucket("b");
  const auto kept = t.start_upload("b", "kept");
  ASSERT_TRUE(kept);
  const auto part = t.put_part(*kept, 1, pattern(100'000, 1));
  ASSERT_TRUE(part);
  const uint64_t beginning = end_of_log();
  const auto lost = t.start_upload("b", "lost");
  ASSERT_TRUE(lost && t.put_part(*lost, 1, pattern(200'000, 2)) && t.put_part(*lost, 2, pattern(100, 3)));
  t.close();
  damage_change_at(beginning);
  t.options.accept_data_loss = true;
  ASSERT_TRUE(t.try_open());
  EXPECT_EQ(t.run(t.store->list_uploads("b", {}))->uploads.size(), 1u);
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, align_up(100'000));
  EXPECT_TRUE(t.complete(*kept, {*part}));
  EXPECT_TRUE(t.get("b", "kept").value_or("") == pattern(100'000, 1));
}

// The append has a row of all parts; the parts' own rows were taken for all that names them.
TEST_F(StartAfterDamage, OfALostUploadThePartsThatAnObjectNamesStay) {
  t.open();
  t.make_bucket("b");
  const uint64_t beginning = end_of_log();
  const auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  const auto first = t.put_part(*upload, 1, pattern(6 * MiB, 1)), last = t.put_part(*upload, 2, pattern(100'000, 2));
  const auto unused = t.put_part(*upload, 3, pattern(200'000, 3));
  ASSERT_TRUE(first && last && unused);
  // Of what lies between two damaged changes in one block of the log nothing is read.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(t.put("b", key_of(i), pattern(10'000, 5)));
  const uint64_t completion = end_of_log();
  ASSERT_TRUE(t.complete(*upload, {*first, *last}));
  {
    const auto writer = t.run(t.engine().create_append("b", "k", 80'000));
    ObjectInfo added;
    added.size = 80'000;
    ASSERT_TRUE(writer && t.append(**writer, pattern(80'000, 4)) && t.run((*writer)->commit(added, {})));
  }
  t.close();
  damage_change_at(beginning);
  damage_change_at(completion);
  t.options.accept_data_loss = true;
  ASSERT_TRUE(t.try_open());
  const std::string whole = pattern(6 * MiB, 1) + pattern(100'000, 2) + pattern(80'000, 4);
  t.expect_no_leak();
  EXPECT_TRUE(t.get("b", "k").value_or("") == whole);
  t.options.accept_data_loss = false;
  t.reopen();
  EXPECT_TRUE(t.get("b", "k").value_or("") == whole);
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
}

// Only the start that met the damage had usage counted anew. Rows of usage are whole numbers, so that of the bucket
// included what is lost.
TEST_F(StartAfterDamage, OfALostUploadNothingIsCountedWhateverStartRemovesIt) {
  t.open();
  t.make_bucket("b");
  const auto kept = t.start_upload("b", "kept");
  ASSERT_TRUE(kept && t.put_part(*kept, 1, pattern(100'000, 1)));
  const uint64_t beginning = end_of_log();
  const auto lost = t.start_upload("b", "lost");
  ASSERT_TRUE(lost && t.put_part(*lost, 1, pattern(200'000, 2)));
  t.close();
  damage_change_at(beginning);
  replay_and_end();
  t.options.accept_data_loss = true;
  t.open();
  expect_usage("b", {.uploads = 1, .upload_bytes = 100'000});
  t.options.accept_data_loss = false;
  t.reopen();
  expect_usage("b", {.uploads = 1, .upload_bytes = 100'000});
}

TEST_F(StartAfterDamage, WhatIsLostBesideALostBucketIsNotCountedWhateverStartRemovesIt) {
  t.open();
  t.make_bucket("other");
  const uint64_t first = end_of_log();
  ASSERT_TRUE(t.put("other", "lost", pattern(1'000, 1)));
  ASSERT_TRUE(t.put("other", "kept", pattern(2'000, 2)));
  t.make_bucket("b");
  ASSERT_TRUE(t.set_document("b", "policy", "{}"));
  t.close();
  damage_change_at(first);
  replay_and_end();
  {
    const auto engine = std::make_shared<Engine>(t.options);
    ASSERT_TRUE(engine->start());
    Batch batch(*engine->index);
    batch.erase(Family::meta, keys::bucket("b"));
    ASSERT_TRUE(engine->index->write(batch) && engine->index->sync());
  }
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("other", "lost").error(), Errc::no_such_key);
  expect_usage("other", {.objects = 1, .bytes = 2'000});
}

// The rows of every kind: taken away with the record, as damage may take it.
TEST_F(StartAfterDamage, WhatBelongsToNoBucketIsRemovedWhateverItIs) {
  t.open();
  t.make_bucket("b");
  fill_bucket("b");
  t.close();
  {
    const auto engine = std::make_shared<Engine>(t.options);
    ASSERT_TRUE(engine->start());
    Batch batch(*engine->index);
    batch.erase(Family::meta, keys::bucket("b"));
    ASSERT_TRUE(engine->index->write(batch) && engine->index->sync());
  }
  EXPECT_EQ(fsck({.directory = "/store", .fs = &fs})->index.size(), 1u) << "the documents";
  t.options.accept_data_loss = true;
  ASSERT_TRUE(t.try_open());
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
  t.close();
  const auto checked = fsck({.directory = "/store", .fs = &fs});
  ASSERT_TRUE(checked);
  EXPECT_TRUE(checked->index.empty() && checked->lost.empty());
  EXPECT_EQ(checked->orphan_extents, 0u);
  for (const Family family :
       {Family::objects, Family::uploads, Family::segments, Family::extents, Family::in_index, Family::versions}) {
    expect_nothing_left(family);
  }
  expect_nothing_left(Family::meta, keys::usage_prefix());
  expect_nothing_left(Family::meta, keys::removed_bucket_prefix());
}

TEST_F(StartAfterDamage, ABitAnywhereInTheLogLosesNothingSilently) {
  fill();
  const std::string log = newest(".log");
  EXPECT_GT(sweep(log, size_of(log) / 150), 100);
}

TEST_F(StartAfterDamage, ABitAnywhereInTheLastRecordOfTheLogIsRefused) {
  fill();
  const std::string log = newest(".log");
  for (const uint64_t back : {1, 9, 40, 100}) {
    const uint64_t at = size_of(log) - back;
    fs.flip_bit(log, at);
    expect_refused(log);
    fs.flip_bit(log, at);
  }
  t.open();
  EXPECT_EQ(readable(), objects);
}

TEST_F(StartAfterDamage, ABitAnywhereInTheManifestLosesNothingSilently) {
  fill();
  t.reopen();  // tables now, and a manifest that names them
  t.close();
  const std::string manifest = newest("", "MANIFEST-");
  EXPECT_GT(sweep(manifest, std::max<uint64_t>(1, size_of(manifest) / 150)), 100);
}

TEST_F(StartAfterDamage, ALengthInTheManifestThatReachesPastItsEndIsNotTakenForATornEnd) {
  fill();
  t.reopen();
  t.close();
  const std::string manifest = newest("", "MANIFEST-");
  // The upper byte of the first record's length: RocksDB would take it for the end, and forget all tables.
  const auto bytes = read_small_file(fs, manifest, 1 * MiB);
  ASSERT_TRUE(bytes);
  auto file = fs.open(manifest, {.write = true});
  const char longer = static_cast<char>((*bytes)[5] | 0x60);
  ASSERT_TRUE((*file)->pwrite(as_bytes({&longer, 1}), 5));
  expect_refused(manifest);
}

TEST_F(StartAfterDamage, ABitAnywhereInATableIsAnErrorAndNeverNoSuchKey) {
  fill();
  t.reopen();
  t.close();
  const auto listed = fs.list("/store/index");
  for (const std::string& name : *listed) {
    if (!name.ends_with(".sst")) continue;
    const std::string table = "/store/index/" + name;
    sweep(table, std::max<uint64_t>(1, size_of(table) / 12));
  }
}

TEST_F(StartAfterDamage, AMissingCurrentIsNoNewIndex) {
  fill();
  ASSERT_TRUE(fs.unlink("/store/index/CURRENT"));
  expect_refused("CURRENT");
}

TEST_F(StartAfterDamage, ABitInCurrentIsRefused) {
  fill();
  for (const uint64_t at : {0, 9, 14}) {
    fs.flip_bit("/store/index/CURRENT", at);
    expect_refused("");
    fs.flip_bit("/store/index/CURRENT", at);
  }
  t.open();
  EXPECT_EQ(readable(), objects);
}

TEST_F(StartAfterDamage, VolumesWithoutTheirIndexAreLeftAlone) {
  fill();
  const auto listed = fs.list("/store/index");
  for (const std::string& name : *listed) ASSERT_TRUE(fs.unlink("/store/index/" + name));
  expect_refused("volumes");
  t.options.accept_data_loss = true;  // does not allow dropping everything
  expect_refused("volumes");
}

TEST_F(StartAfterDamage, AMissingVersionBesideAnIndexIsNoNewStore) {
  fill();
  ASSERT_TRUE(fs.unlink("/store/VERSION"));
  expect_refused("VERSION");
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(readable(), objects);
}

TEST_F(StartAfterDamage, AMissingLogIsRefused) {
  fill();
  t.reopen();
  ASSERT_TRUE(t.put("b", "newer", "x"));
  t.close();
  ASSERT_TRUE(fs.unlink(newest(".log")));
  const auto opened = t.try_open();
  EXPECT_EQ(opened.error(), Errc::corrupt_object);
}

TEST_F(StartAfterDamage, AMissingVolumeIsRefusedAndNamed) {
  fill();
  const std::string volume = "/store/volumes/" + fs.list("/store/volumes")->front();
  ASSERT_TRUE(fs.unlink(volume));
  const auto opened = t.try_open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::corrupt_object);
  EXPECT_NE(trouble.find(volume), std::string::npos) << trouble;
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(readable(), objects);
  EXPECT_EQ(t.get("b", "large").error(), Errc::corrupt_object);
}

// The machine stops while changes not acknowledged as durable are being written, and some of them reach the disk but
// not those before: the effect of a power loss on the log of `memory` buckets.
TEST_F(StartAfterDamage, ALogThatAPowerLossToreStartsSilently) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    FaultyFileSystem disk;
    TestStore other(&disk);
    std::string said;
    other.options.trouble = &said;
    other.options.write_behind_max = 0;  // each PUT goes through the index, unsynced
    other.open();
    other.make_bucket("s");
    other.make_bucket("m", Durability::memory);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(other.put("s", key_of(i), value_of(i)));
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(other.put("m", key_of(i), pattern(3000, static_cast<uint64_t>(i))));
    disk.fail_at(0, FaultyFileSystem::Fault::crash);
    other.close();
    disk.crash(FaultyFileSystem::Loss::torn, seed);
    const auto opened = other.try_open();
    ASSERT_TRUE(opened) << "seed " << seed << ": " << said;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(other.get("s", key_of(i)).value_or("") == value_of(i));
  }
}

// Only the log's format.

std::string piece(uint8_t type, const std::string& bytes) {
  std::string body(1, static_cast<char>(type));
  body += bytes;
  const uint32_t crc = crc32c(as_bytes(body));
  const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(masked >> (8 * i));
  out += static_cast<char>(bytes.size());
  out += static_cast<char>(bytes.size() >> 8);
  return out + body;
}

struct Scanned {
  std::vector<std::string> before, behind;
  std::optional<LogDamage> damage;
};

Scanned scan(const std::string& bytes) {
  FaultyFileSystem fs;
  EXPECT_TRUE(fs.make_directory("/d"));
  auto file = fs.open("/d/log", {.write = true, .create = true});
  EXPECT_TRUE(write_fully(**file, as_bytes(bytes), 0));
  Scanned out;
  auto damage = scan_log(**file, [&](const LogRecord& record, const LogDamage* before) {
    (before == nullptr ? out.before : out.behind).emplace_back(record.bytes);
  });
  EXPECT_TRUE(damage);
  out.damage = *damage;
  return out;
}

TEST(LogScan, ReadsRecordsOfOneAndOfSeveralPieces) {
  const auto all = scan(piece(1, "one") + piece(2, "tw") + piece(3, "o-") + piece(4, "three") + piece(1, ""));
  EXPECT_EQ(all.before, (std::vector<std::string>{"one", "two-three", ""}));
  EXPECT_FALSE(all.damage);
}

TEST(LogScan, TellsATornEndFromAChangedRecord) {
  const std::string good = piece(1, pattern(700, 1)), last = piece(1, pattern(1500, 2));
  EXPECT_TRUE(scan(good + last.substr(0, 900)).damage->torn);
  EXPECT_TRUE(scan(good + last.substr(0, 3)).damage->torn);
  EXPECT_TRUE(scan(good + piece(2, "first of a record")).damage->torn);
  const std::string zeros(5000, '\0');
  EXPECT_FALSE(scan(good + zeros).damage) << "written ahead (log_ahead.h)";
  EXPECT_TRUE(scan(good + zeros + last).damage);
  std::string hole = good + last;
  std::fill(hole.begin() + 1024, hole.begin() + 1536, '\0');  // a sector that was not written
  EXPECT_TRUE(scan(hole).damage->torn);
  for (size_t at = 0; at < last.size(); at += 13) {
    std::string flipped = good + last;
    flipped[good.size() + at] ^= 0x10;
    const auto found = scan(flipped);
    ASSERT_TRUE(found.damage) << at;
    EXPECT_FALSE(found.damage->torn) << at;
    EXPECT_EQ(found.damage->offset, good.size());
    EXPECT_EQ(found.before.size(), 1u);
  }
}

TEST(LogScan, FindsTheRecordsBehindDamageWhateverItsLengthSays) {
  const std::string bad = piece(1, pattern(300, 1));
  for (size_t at = 0; at < bad.size(); at += 3) {
    std::string bytes = piece(1, "a") + bad + piece(1, "b") + piece(1, "c");
    bytes[8 + at] ^= 0x04;
    const auto found = scan(bytes);
    EXPECT_EQ(found.behind, (std::vector<std::string>{"b", "c"})) << at;
  }
}

TEST(LogScan, WhatLooksLikeARecordInsideOfOneIsNone) {
  // An object's bytes may look like a piece of a log. After it nothing is whole up to the end.
  std::string inner = piece(1, "forged");
  std::string outer = piece(1, pattern(100, 1) + inner + pattern(100, 2));
  outer[20] ^= 1;
  EXPECT_TRUE(scan(outer).behind.empty());
}

// The index has checksums of its own; this one goes from the writer's memory to the reader's.
TEST(Damage, ASmallObjectIsKnownByItsChecksum) {
  const std::string value = encode_inline(as_bytes(std::string_view("small")));
  ASSERT_EQ(*decode_inline(value), "small");
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    std::string damaged = value;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(decode_inline(damaged).error(), Errc::corrupt_object) << bit;
  }
  EXPECT_EQ(decode_inline("abc").error(), Errc::corrupt_object);
}

}  // namespace
}  // namespace verbena::store::local
