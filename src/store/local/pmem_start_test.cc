// Starts of the engine with persistent memory: records of the log that are damaged, and refusals.
#include <cstring>

#include "store/local/test_pmem.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::local {
namespace {

// --- Records that are damaged
// ----------------------------------------------------------------------------------------------------

class PmemLost : public Pmem {
 protected:
  PmemLost() {
    t.open();
    t.make_bucket("b");
  }
  void damage_newest(const std::string& text) {
    const auto all = memories.bytes();
    const size_t at = std::string(reinterpret_cast<const char*>(all.data()), all.size()).rfind(text);
    ASSERT_NE(at, std::string::npos);
    memories.change(at);
  }
  void expect_lost(const std::string& key, uint64_t size) {
    EXPECT_EQ(t.get("b", key).error(), Errc::corrupt_object);
    EXPECT_EQ(t.store->hot("b", key), nullptr);
    const auto page = t.list("b");
    ASSERT_TRUE(page);
    const auto entry = std::ranges::find_if(page->entries, [&](const auto& one) { return one.key == key; });
    ASSERT_NE(entry, page->entries.end());
    EXPECT_EQ(entry->info.size, size);
    EXPECT_EQ(t.usage("b")->bytes, t.usage_by_listing("b")->bytes);
  }
  // The key has an older object in the index, or in the log.
  void lose_the_newer_of_two(bool in_index, bool poisoned) {
    ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
    if (in_index) t.store->drain();
    ASSERT_TRUE(t.put("b", "k", pattern(2000, 2)));
    ASSERT_TRUE(t.put("b", "l", pattern(3000, 3)));
    const auto told = t.run(t.store->stat("b", "k"));
    power_cut();
    damage(pattern(2000, 2), poisoned);
    t.open();
    expect_lost("k", 2000);
    const auto found = t.run(t.store->stat("b", "k"));
    ASSERT_TRUE(told && found);
    EXPECT_EQ(found->etag, told->etag);
    EXPECT_EQ(found->modified_us, told->modified_us);
    EXPECT_EQ(*t.get("b", "l"), pattern(3000, 3));
  }
};

TEST_F(PmemLost, ADamagedRecordIsAnErrorOfItsObjectAndNotTheObjectBefore) {
  for (const bool in_index : {true, false}) {
    lose_the_newer_of_two(in_index, false);
    power_cut();
    t.open();
    expect_lost("k", 2000);
    t.close();
    t.open();
    expect_lost("k", 2000);
    const auto report = t.store->scrub();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->objects, std::vector<std::string>{"b/k"});
    ASSERT_TRUE(t.put("b", "k", "again"));
    EXPECT_EQ(*t.get("b", "k"), "again");
    power_cut();
    t.open();
    EXPECT_EQ(*t.get("b", "k"), "again");
    ASSERT_TRUE(t.remove("b", "k"));
  }
}

TEST_F(PmemLost, ARemovalRemovesItAndNothingComesBack) {
  lose_the_newer_of_two(true, false);
  ASSERT_TRUE(t.remove("b", "k"));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  power_cut();
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  t.expect_no_leak();
}

TEST_F(PmemLost, APoisonedLineIsSuchAnError) {
  lose_the_newer_of_two(true, true);
  power_cut();
  t.open();
  expect_lost("k", 2000);
}

TEST_F(PmemLost, WithoutAnObjectBeforeItIsNoMissingKey) {
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  power_cut();
  damage(pattern(3000, 1));
  t.open();
  expect_lost("k", 3000);
}

TEST_F(PmemLost, OneWhoseHeadIsDamagedHasNoETagAndCannotBeReadHoweverSmall) {
  const std::string tag = "0123456789abcdef0123456789abcdef";
  for (const std::string& bytes : {pattern(3000, 1), std::string()}) {
    TestStore::How how;
    how.etag = tag;
    ASSERT_TRUE(t.put("b", "k", bytes, how));
    power_cut();
    damage_newest(tag);
    t.open();
    expect_lost("k", bytes.size());
    EXPECT_EQ(t.run(t.store->stat("b", "k"))->etag, std::string(32, '0'));
  }
}

// The power failed between the sync of the index and the mark in the log.
TEST_F(PmemLost, WhatTheIndexHasAlreadyIsNotLost) {
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  memories.cut_at(0);
  t.store->drain();
  power_cut();
  damage(pattern(3000, 1));
  t.open();
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
}

// The index gave it a time after that of the object before it, from before the clock was set back.
TEST_F(PmemLost, WhatTheIndexHasWithALaterTimeIsNotLost) {
  const std::string tag = "0123456789abcdef0123456789abcdef";
  for (const bool has_head : {true, false}) {
    ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
    t.store->drain();
    t.step_clock(-std::chrono::hours(1));
    TestStore::How how;
    how.etag = tag;
    const auto told = t.put("b", "k", pattern(2000, 2), how);
    ASSERT_TRUE(told);
    memories.cut_at(0);
    t.store->drain();
    power_cut();
    if (has_head) {
      damage(pattern(2000, 2));
    } else {
      damage_newest(tag);
    }
    t.open();
    EXPECT_EQ(*t.get("b", "k"), pattern(2000, 2)) << has_head;
    EXPECT_GT(t.run(t.store->stat("b", "k"))->modified_us, told->modified_us);
    t.step_clock(std::chrono::hours(2));
  }
}

// As above, but the index does not have it: neither has the same head, or the same time and size.
TEST_F(PmemLost, AnObjectBeforeItWithALaterTimeIsAnotherOne) {
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  t.store->drain();
  t.step_clock(-std::chrono::hours(1));
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 2)));
  power_cut();
  damage(pattern(3000, 2));
  t.open();
  expect_lost("k", 3000);
}

// --- What the index refuses of them
// ----------------------------------------------------------------------------------------------------

TEST_F(PmemLost, OneWhoseKeyHasAnUnreadableRowIsGivenUpWithWords) {
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  t.store->drain();
  ASSERT_TRUE(t.put("b", "k", pattern(2000, 2)));
  power_cut();
  damage(pattern(2000, 2));
  edit_row([](std::string& row) { row = "\xff\xff"; });
  testing::internal::CaptureStderr();
  t.open();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("b/k was acknowledged and is damaged"), std::string::npos) << said;
  const auto got = t.get("b", "k");
  ASSERT_FALSE(got);
  EXPECT_NE(got.error(), Errc::no_such_key);
}

// Its row can be read: without the lost one the key would have it.
TEST_F(PmemLost, AnObjectBeforeItWhosePartsCannotBeReadDoesNotShow) {
  const auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  const auto part = t.put_part(*upload, 1, pattern(3000, 1));
  ASSERT_TRUE(part);
  ASSERT_TRUE(t.complete(*upload, {*part}));
  ASSERT_TRUE(t.put("b", "k", pattern(2000, 2)));
  power_cut();
  damage(pattern(2000, 2));
  uint64_t id = 0;
  edit_row([&id](std::string& row) { id = decode_object(row)->id; });
  edit_index([id](Index& /*index*/, Batch& batch) { batch.put(Family::uploads, keys::object_parts(id), "\xff"); });
  t.open();
  expect_lost("k", 2000);
  ASSERT_TRUE(t.put("b", "k", "again"));
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "again");
}

// Here since the null version's row is damaged.
TEST_F(PmemLost, OneThatTheIndexRefusesIsARefusalThatSaysWhatToDo) {
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  ASSERT_TRUE(t.put("b", "l", pattern(3000, 2)));
  power_cut();
  damage(pattern(3000, 1));
  edit_index([](Index& index, Batch& batch) {
    auto bucket = decode_bucket(*index.get(Family::meta, keys::bucket("b")));
    ASSERT_TRUE(bucket);
    bucket->info.versioning = Versioning::suspended;
    batch.put(Family::meta, keys::bucket("b"), encode(*bucket));
    batch.put(Family::uploads, keys::null_version(bucket->id, "k"), "no number");
  });
  ASSERT_FALSE(t.try_open());
  for (const char* words : {"b/k was acknowledged and is damaged", "verbena fsck", "accept_data_loss"}) {
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
  }
  t.options.accept_data_loss = true;
  const auto opened = t.try_open();
  ASSERT_TRUE(opened) << trouble;
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(*t.get("b", "l"), pattern(3000, 2));
}

// Neither removals nor parts nor versions are in the log; what they followed may be.
TEST_F(PmemLost, ARecordThatIsOverIsNobodysError) {
  ASSERT_TRUE(t.put("b", "removed", pattern(3000, 1)));
  ASSERT_TRUE(t.remove("b", "removed"));
  ASSERT_TRUE(t.put("b", "joined", pattern(3000, 2)));
  const auto upload = t.start_upload("b", "joined");
  ASSERT_TRUE(upload);
  const auto part = t.put_part(*upload, 1, pattern(3000, 3));
  ASSERT_TRUE(part);
  ASSERT_TRUE(t.complete(*upload, {*part}));
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 4)));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 5)));
  power_cut();
  for (const uint64_t of : {1, 2, 4}) damage(pattern(3000, of));
  t.open();
  EXPECT_EQ(t.get("b", "removed").error(), Errc::no_such_key);
  EXPECT_EQ(*t.get("b", "joined"), pattern(3000, 3));
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 5));
  EXPECT_EQ(*t.get_version("b", "k", "null"), pattern(3000, 4));
}

// --- Refusals
// ----------------------------------------------------------------------------------------------------

class PmemRefused : public Pmem {
 protected:
  void use() {
    t.open();
    t.make_bucket("b");
    ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
    ASSERT_TRUE(t.put("b", "l", pattern(3000, 2)));
    power_cut();
  }
  // The records of an older program have other headers, which no start gets to.
  void make_older() {
    memories.set(7, std::byte{'1'});
    ASSERT_EQ(as_text(std::span<const std::byte>(memories.bytes()).first(8)), "PBEMLOG1");
  }
  // Of a start that may lose data: the log's objects are gone, and what is stored from now on is kept.
  void expect_a_new_log() {
    t.open();
    EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
    ASSERT_TRUE(t.put("b", "k", "again"));
    power_cut();
    t.options.accept_data_loss = false;
    t.open();
    EXPECT_EQ(*t.get("b", "k"), "again");
  }
  void expect_refusal(const std::string& words) {
    const auto before = memories.bytes();
    const auto opened = t.try_open();
    ASSERT_FALSE(opened) << words;
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
    EXPECT_NE(trouble.find("No object was changed"), std::string::npos) << trouble;
    if (!before.empty()) {
      EXPECT_EQ(memories.bytes(), before);
    }
  }
};

TEST_F(PmemRefused, AStartWithoutTheMemoryThatHasAcknowledgedObjects) {
  use();
  t.options.pmem.clear();
  expect_refusal("data.pmem is not set");
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(PmemRefused, AMemoryThatHasNoLog) {
  use();
  memories.forget();
  expect_refusal("is missing");
  t.options.accept_data_loss = true;
  expect_a_new_log();
}

TEST_F(PmemRefused, TheLogOfAnotherStore) {
  use();
  FaultyFileSystem other_disk;
  TestStore other(&other_disk);
  other.options.pmem = "/pmem";
  other.options.pmem_memories = &memories;
  other.options.trouble = &trouble;
  ASSERT_FALSE(other.try_open());
  EXPECT_NE(trouble.find("2 objects of another store"), std::string::npos) << trouble;
  t.open();
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
}

TEST_F(PmemRefused, ARecordWhoseHeaderIsDamagedIsOfAnyKey) {
  for (const bool poisoned : {false, true}) {
    memories.replace();
    use();
    constexpr uint64_t first = 4096;  // the record of k
    if (poisoned) {
      memories.poison(first);
    } else {
      memories.change(first + 16);
    }
    expect_refusal("Of which key it was is not known" + std::string(poisoned ? "." : ", but it may begin with \"k\"."));
    t.options.accept_data_loss = true;
    t.open();
    EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
    EXPECT_EQ(*t.get("b", "l"), pattern(3000, 2));
    t.options.accept_data_loss = false;
    ASSERT_TRUE(t.remove("b", "l"));
    ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
    t.close();
  }
}

// It may be that of an object's bytes.
TEST_F(PmemRefused, NothingIsShownOfALineThatIsNoHeader) {
  use();
  memories.change(4096 + 32);  // says that it is of an object
  expect_refusal("Of which key it was is not known.");
}

TEST_F(PmemRefused, TheLogOfAnOlderProgramThatMayHaveObjects) {
  use();
  make_older();
  expect_refusal("of an older program: start that once and stop it");
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(PmemRefused, TheLogOfAnOlderProgramAfterAnOrderlyStopIsMadeAnew) {
  use();
  t.open();
  t.close();
  make_older();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
  ASSERT_TRUE(t.put("b", "k", "again"));
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "again");
}

TEST_F(PmemRefused, TheEmptyLogOfAnOlderProgramIsMadeAnew) {
  use();
  t.open();
  t.store->drain();
  power_cut();
  make_older();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
}

TEST_F(PmemRefused, TheLogOfAnOlderProgramAndOfAnotherStore) {
  use();
  make_older();
  FaultyFileSystem other_disk;
  TestStore other(&other_disk);
  other.options.pmem = "/pmem";
  other.options.pmem_memories = &memories;
  other.options.trouble = &trouble;
  ASSERT_FALSE(other.try_open());
  EXPECT_NE(trouble.find("of an older program"), std::string::npos) << trouble;
}

TEST_F(PmemRefused, APoisonedFirstPageSaysWhatCanBeDone) {
  use();
  memories.poison(0);
  expect_refusal("cannot be read at its beginning");
  for (const char* words : {"/pmem/verbena.pmem", "bad block", "Move the file away", "accept_data_loss"}) {
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
  }
  t.options.accept_data_loss = true;
  expect_refusal("cannot be written at its beginning");
  EXPECT_NE(trouble.find("/pmem/verbena.pmem"), std::string::npos) << trouble;
  memories.replace();  // as the words say
  expect_a_new_log();
}

TEST_F(PmemRefused, APoisonedFirstPageOfALogThatIsNotNeededIsTakenAwayWithoutLoss) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "value"));
  t.close();
  memories.poison(0);
  expect_refusal("No object of this store is there alone");
  memories.replace();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
}

TEST_F(PmemRefused, ANamespaceThatShrank) {
  use();
  memories.shrink(PmemLog::size_min / 2);
  expect_refusal("has shrunk");
}

TEST_F(PmemRefused, ASecondServerOnOneMemory) {
  t.open();
  FaultyFileSystem other_disk;
  TestStore other(&other_disk);
  other.options.pmem = "/pmem";
  other.options.pmem_memories = &memories;
  EXPECT_EQ(other.try_open().error(), Errc::service_unavailable);
}

// --- A node that other stores may have
// ----------------------------------------------------------------------------------------------------

class PmemNode : public Pmem {
 protected:
  PmemNode() {
    memories.be_a_node();
    other.options.pmem = t.options.pmem;
    other.options.pmem_log_size = t.options.pmem_log_size;
    other.options.pmem_memories = &memories;
    other.options.trouble = &trouble;
  }
  // The node has the log of another store, which was not stopped in order and has nothing there.
  void let_another_be_killed() {
    other.open();
    other_disk.fail_at(0, Fault::crash);
    other.close();
    other_disk.crash(Loss::unsynced, 1);
    memories.cut(1);
  }
  void expect_refusal_of_a_held_log() {
    const auto before = memories.bytes();
    ASSERT_FALSE(t.try_open());
    for (const char* words : {"another store, which is running, or was not stopped in order", "No object was changed",
                              "verbena device format --force"}) {
      EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
    }
    EXPECT_EQ(memories.bytes(), before);
  }

  FaultyFileSystem other_disk;
  TestStore other{&other_disk};
};

TEST_F(PmemNode, IsNotLostToItsStoreByAFirstLogThatIsCut) {
  for (uint64_t at = 0; at < 40; ++at) {
    trouble.clear();
    memories.cut_at(at, [this] { fs.fail_at(0, Fault::crash); });
    (void)t.try_open();
    ASSERT_EQ(trouble.find("another store"), std::string::npos) << at << ": " << trouble;
    power_cut(at);
  }
  t.open();
}

TEST_F(PmemNode, WhoseLogWasGivenUpMayBeNamedAgain) {
  t.open();
  power_cut();
  t.options.pmem.clear();
  t.options.accept_data_loss = true;
  t.open();
  t.close();
  t.options.accept_data_loss = false;
  t.options.pmem = "/pmem";
  ASSERT_TRUE(t.try_open()) << trouble;
}

TEST_F(PmemNode, WithALogThatAnotherStoreHoldsIsNotOverwrittenByConsentToDataLoss) {
  let_another_be_killed();
  expect_refusal_of_a_held_log();
  t.options.accept_data_loss = true;
  expect_refusal_of_a_held_log();
  t.options.accept_data_loss = false;
  other.open();
  other.close();
  ASSERT_TRUE(t.try_open()) << trouble;  // given back
}

TEST_F(PmemNode, ThatAnotherStoreTakesAfterItWasLookedAtIsRefused) {
  other.open();
  other.close();
  const auto given_back = memories.bytes();
  uint64_t id = 0;
  std::memcpy(&id, given_back.data() + 8, sizeof id);
  uint64_t looks = 0;
  memories.before_loads([&](uint64_t offset) {
    constexpr uint64_t held_at = 128;
    if (offset != held_at || ++looks != 2) return;
    id |= 1;
    for (size_t i = 0; i < sizeof id; ++i) memories.set(held_at + i, std::as_bytes(std::span(&id, 1))[i]);
  });
  ASSERT_FALSE(t.try_open());
  EXPECT_NE(trouble.find("another store, which is running"), std::string::npos) << trouble;
  EXPECT_EQ(looks, 2u);
  EXPECT_EQ(memories.bytes()[8], given_back[8]) << "nothing was formatted";
  memories.before_loads({});
}

TEST_F(PmemNode, ThatAnotherStoreTakesWhileALogIsMadeIsRefused) {
  memories.before_loads([&, changed = false](uint64_t offset) mutable {
    if (offset != 0 || changed || memories.bytes()[0] == std::byte{0}) return;
    changed = true;
    memories.change(8);  // what is there is no longer the log that was made
  });
  ASSERT_FALSE(t.try_open());
  EXPECT_NE(trouble.find("another store, which is running"), std::string::npos) << trouble;
  memories.before_loads({});
  memories.replace();
  ASSERT_TRUE(t.try_open()) << "the index names no log: " << trouble;
}

}  // namespace
}  // namespace verbena::store::local
