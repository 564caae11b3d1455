#include "auth/keyring.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "auth/test_key_rings.h"

namespace verbena::auth {
namespace {

TEST_F(KeyRingTest, MakesAFileOfItsOwnAtTheFirstStartAndReadsItAtTheNext) {
  const std::string sealed = open()->seal(as_bytes("a secret"), "user alice");
  struct stat status{};
  ASSERT_EQ(::stat(keys().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(opened(*open(), sealed, "user alice"), "a secret");
  EXPECT_EQ(sealed.size(), 8 + sealed_overhead);
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
}

TEST_F(SharedKeyRingTest, AServerWithoutTheKeyFileOfTheFirstDoesNotStartAndSaysWhatToCopy) {
  const auto first = join("a");
  ASSERT_TRUE(first) << first.error();
  ASSERT_TRUE(ids_.text);
  EXPECT_EQ(*ids_.text, (*first)->newest_id() + "\n") << "a keyed hash, and nothing of the key";
  const auto second = join("b");
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().find("copy the key file"), std::string::npos) << second.error();
  EXPECT_NE(second.error().find(key_file("b").string()), std::string::npos) << second.error();
  EXPECT_FALSE(std::filesystem::exists(key_file("b"))) << "a key that is of no use is not made";
  EXPECT_FALSE(std::filesystem::exists(id_file("b")));
  copy_keys("a", "b");
  const auto again = join("b");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(opened(**again, (*first)->seal(as_bytes("x"), "c"), "c"), "x");
}

TEST_F(SharedKeyRingTest, AServerWithAnotherKeyDoesNotStartAndLosesNothing) {
  {
    const auto own = KeyRing::open((std::filesystem::create_directory(folder_ / "b"), key_file("b")), id_file("b"));
    ASSERT_TRUE(own);
  }
  const std::string before = text_of(key_file("b"));
  ASSERT_TRUE(join("a"));
  const auto refused = join("b");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("copy the key file"), std::string::npos) << refused.error();
  EXPECT_EQ(refused.error().find(before.substr(before.rfind(' ') + 1, 40)), std::string::npos) << "a key in a message";
  EXPECT_EQ(text_of(key_file("b")), before);
}

TEST_F(SharedKeyRingTest, OfTwoThatComeAtOnceOneHasTheKeyAndTheOthersFilesAreGone) {
  bool came = false;
  ids_.meanwhile = [&] {
    if (std::exchange(came, true)) return;
    ASSERT_TRUE(join("a"));
  };
  const auto late = join("b");
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().find("copy the key file"), std::string::npos) << late.error();
  EXPECT_FALSE(std::filesystem::exists(key_file("b")));
  EXPECT_FALSE(std::filesystem::exists(id_file("b")));
  copy_keys("a", "b");
  EXPECT_TRUE(join("b"));
}

TEST_F(SharedKeyRingTest, ARotationReachesAllServersBeforeItIsUsed) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  const auto second = join("b");
  ASSERT_TRUE(second);
  ASSERT_EQ(::chmod(key_file("b").c_str(), 0400), 0);
  tell({first->get(), second->get()});
  const std::string old = (*first)->newest_id();
  sealed_.told = [&, told = sealed_.told] {
    told();
    EXPECT_EQ((*second)->size(), 2u) << "it has the key";
    EXPECT_EQ((*second)->newest_id(), old) << "and does not use it yet";
    EXPECT_EQ((*first)->newest_id(), old);
  };
  const std::string added = rotate("a");
  ASSERT_TRUE((*first)->reload());
  EXPECT_EQ((*first)->newest_id(), added);
  EXPECT_EQ((*second)->newest_id(), added);
  EXPECT_EQ(opened(**second, (*first)->seal(as_bytes("new"), "c"), "c"), "new");
  EXPECT_EQ(text_of(key_file("b")), text_of(key_file("a")));
  EXPECT_EQ(text_of(id_file("b")), text_of(id_file("a")));
  struct stat status{};
  ASSERT_EQ(::stat(key_file("b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0400u);
  EXPECT_EQ(sealed_.text->find(text_of(key_file("a")).substr(text_of(key_file("a")).rfind(' ') + 1, 40)),
            std::string::npos);
}

TEST_F(SharedKeyRingTest, AServerThatWasAwayTakesAllKeysThatCameMeanwhileAtItsNextStart) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  ASSERT_TRUE(join("b"));
  for (int i = 0; i < 3; ++i) {
    rotate("a");
    ASSERT_TRUE((*first)->reload());
  }
  const auto second = join("b");
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ((*second)->size(), 4u);
  EXPECT_EQ(text_of(key_file("b")), text_of(key_file("a")));
  EXPECT_FALSE(join("c")) << "a server with none of the keys";
}

TEST_F(SharedKeyRingTest, WithoutAKeyThatItsFileCannotTakeAServerGoesOn) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  const auto second = join("b");
  ASSERT_TRUE(second);
  rotate("a");
  ASSERT_TRUE((*first)->reload());
  std::filesystem::remove(key_file("b"));
  std::filesystem::create_directory(key_file("b"));
  EXPECT_FALSE((*second)->take(ids_.text, sealed_.text));
  EXPECT_EQ(opened(**second, (*first)->seal(as_bytes("new"), "c"), "c"), "new");
}

// Rows as an attacker without a key can write them.
TEST_F(SharedKeyRingTest, NoKeyIsTakenThatAServerWithTheOldOneDidNotSeal) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  const auto second = join("b");
  ASSERT_TRUE(second);
  const std::string one = rotate("a");
  ASSERT_TRUE((*first)->reload());
  const std::string before = *sealed_.text;
  const std::string two = rotate("a");
  ASSERT_TRUE((*first)->reload());
  const std::string good = *sealed_.text;
  const std::string line_of_one = good.substr(0, good.find('\n') + 1), line_of_two = good.substr(line_of_one.size());
  ASSERT_TRUE(line_of_one.starts_with(one) && line_of_two.starts_with(two));
  const auto stranger = KeyRing::in_memory();
  const std::string forged = to_base64(
      as_bytes(stranger->seal(as_bytes(std::string(3, '\0') + "\x09" + std::string(32, 'k')), "master key " + one)));
  for (const std::string& text : {
           good.substr(0, 60),                                    // truncated
           line_of_one.substr(0, line_of_one.size() - 6) + "\n",  // truncated in the tag
           one + line_of_two.substr(16),                          // another key's text
           two + line_of_one.substr(16),                          //
           "0123456789abcdef" + line_of_one.substr(16),           // a key of no such id
           one + " " + forged + "\n",                             // sealed under another key
           one + " " + to_base64(as_bytes((*first)->seal(as_bytes("text"), "user alice"))) + "\n",
           std::string("x"),
           std::string(1 << 20, 'x'),
           std::string(300, '\n'),
       }) {
    const auto taken = (*second)->take(ids_.text, text);
    EXPECT_FALSE(taken) << text.substr(0, 100);
    EXPECT_EQ((*second)->size(), 1u) << text.substr(0, 100);
  }
  // An older row, or none, takes nothing away.
  ASSERT_TRUE((*second)->take(ids_.text, good));
  EXPECT_EQ((*second)->size(), 3u);
  for (const std::optional<std::string>& text : {std::optional(before), std::optional<std::string>()}) {
    (void)(*second)->take(ids_.text, text);
    EXPECT_EQ((*second)->size(), 3u);
    EXPECT_EQ((*second)->newest_id(), two);
  }
  // A server that has the keys repairs the row.
  for (const std::string& text : {one + line_of_two.substr(16) + line_of_two, before, std::string("x\n")}) {
    sealed_.text = text;
    ASSERT_TRUE((*first)->reload());
    std::filesystem::remove_all(folder_ / "d");
    std::filesystem::create_directory(folder_ / "d");
    std::ofstream(key_file("d")) << text_of(key_file("a")).substr(0, text_of(key_file("a")).find("\n2 ") + 1);
    ASSERT_EQ(::chmod(key_file("d").c_str(), 0600), 0);
    const auto third = join("d");
    ASSERT_TRUE(third) << third.error();
    EXPECT_EQ((*third)->newest_id(), two);
  }
}

TEST_F(SharedKeyRingTest, AKeySealedUnderOneThatIsNoLongerTheNewestIsNotTaken) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "thief");
  rotate("a");
  ASSERT_TRUE((*first)->reload());
  const size_t had = (*first)->size();
  // With the old key a stranger makes another one, in a store of its own.
  SharedIds ids, sealed;
  const auto thief = KeyRing::open(key_file("thief"), id_file("thief"), KeyRing::Shared{ids, sealed});
  ASSERT_TRUE(thief && (*thief)->share());
  rotate("thief");
  rotate("thief");
  ASSERT_TRUE((*thief)->reload());
  (void)(*first)->take(*ids.text + *ids_.text, sealed.text);
  EXPECT_EQ((*first)->size(), had);
}

TEST_F(SharedKeyRingTest, OfTwoRotationsAtOnceEveryServerGetsBothKeys) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  const auto second = join("b");
  ASSERT_TRUE(second);
  tell({first->get(), second->get()});
  const std::string one = rotate("a"), two = rotate("b");
  ASSERT_TRUE((*first)->reload());
  ASSERT_TRUE((*second)->reload());
  for (const auto& ring : {first->get(), second->get()}) {
    EXPECT_EQ(ring->size(), 3u);
    EXPECT_EQ(ring->newest_id(), two);
  }
  EXPECT_EQ(opened(**first, (*second)->seal(as_bytes("x"), "c"), "c"), "x");
  EXPECT_TRUE(join("a"));
  EXPECT_TRUE(join("b"));
}

TEST_F(SharedKeyRingTest, ALineThatIsNoIdStays) {
  ids_.text = "for-servers-of-older-versions\n";
  const auto first = join("a");
  ASSERT_TRUE(first) << first.error();
  EXPECT_EQ(*ids_.text, (*first)->newest_id() + "\nfor-servers-of-older-versions\n");
}

TEST_F(SharedKeyRingTest, AfterAnOlderServersRotationTheFileIsCopied) {
  const auto first = join("a");
  ASSERT_TRUE(first);
  copy_keys("a", "b");
  const auto second = join("b");
  ASSERT_TRUE(second);
  rotate("a");
  ASSERT_TRUE((*first)->reload());
  sealed_.text.reset();  // which it does not know
  const auto told = (*second)->reload();
  ASSERT_FALSE(told);
  EXPECT_NE(told.error().find("copy the key file"), std::string::npos) << told.error();
  EXPECT_EQ(opened(**second, (*second)->seal(as_bytes("own"), "c"), "c"), "own");
  EXPECT_FALSE(join("b"));
  copy_keys("a", "b");
  ASSERT_TRUE((*second)->reload());
  EXPECT_EQ((*second)->newest_id(), (*first)->newest_id());
  EXPECT_TRUE(join("b"));
  EXPECT_TRUE(sealed_.text) << "for the others";
}

TEST_F(KeyRingTest, AnotherContextDoesNotOpen) {
  const auto ring = open();
  const std::string sealed = ring->seal(as_bytes("x"), "user alice");
  EXPECT_EQ(opened(*ring, sealed, "user bob"), "corrupt_object");
}

TEST_F(KeyRingTest, EveryChangedBitIsSeen) {
  const auto ring = KeyRing::in_memory();
  const std::string sealed = ring->seal(as_bytes("some text"), "c");
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(ring->unseal(as_bytes(changed), "c")) << bit;
  }
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(ring->unseal(as_bytes(sealed).first(size), "c")) << size;
  }
}

TEST_F(KeyRingTest, SealingTheSameTwiceGivesDifferentBytes) {
  const auto ring = KeyRing::in_memory();
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(ring->seal(as_bytes("same"), "c")).second);
}

TEST_F(KeyRingTest, AnEmptyTextCanBeSealed) {
  const auto ring = KeyRing::in_memory();
  EXPECT_EQ(opened(*ring, ring->seal({}, ""), ""), "");
}

TEST_F(KeyRingTest, AfterARotationTheNewKeySealsAndTheOldOneStillOpens) {
  const auto ring = open();
  const std::string old_id = ring->newest_id();
  const std::string old_sealed = ring->seal(as_bytes("old"), "c");
  const auto added = KeyRing::rotate(keys());
  ASSERT_TRUE(added) << added.error();
  EXPECT_EQ(ring->newest_id(), old_id);
  ASSERT_TRUE(ring->reload());
  EXPECT_EQ(ring->newest_id(), *added);
  EXPECT_EQ(ring->size(), 2u);
  const std::string new_sealed = ring->seal(as_bytes("new"), "c");
  EXPECT_NE(old_sealed.substr(1, 8), new_sealed.substr(1, 8));
  const auto again = open();
  EXPECT_EQ(opened(*again, old_sealed, "c"), "old");
  EXPECT_EQ(opened(*again, new_sealed, "c"), "new");
}

TEST_F(KeyRingTest, AKeyFileThatOthersCanReadIsRefused) {
  open();
  ASSERT_EQ(::chmod(keys().c_str(), 0640), 0);
  EXPECT_NE(open_error().find("chmod 600"), std::string::npos);
}

TEST_F(KeyRingTest, TheGroupOfAMountedSecretMayReadIt) {
  const std::string id = open()->newest_id();
  if (::chown(keys().c_str(), 65534, ::getegid()) != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(keys().c_str(), 0440), 0);
  EXPECT_EQ(open()->newest_id(), id);
  ASSERT_EQ(::chmod(keys().c_str(), 0444), 0);
  EXPECT_NE(open_error().find("chmod 600"), std::string::npos);
}

TEST_F(KeyRingTest, ALostKeyFileIsAnErrorAndNotANewKey) {
  open();
  std::filesystem::remove(keys());
  EXPECT_NE(open_error().find("is missing"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(keys()));
}

TEST_F(KeyRingTest, AnotherServersKeyFileIsAnError) {
  const std::string id = open()->newest_id();
  std::filesystem::rename(keys(), folder_ / "aside");
  std::filesystem::remove(known());
  open();  // keys of another server
  const std::string other = text_of(keys());
  std::ofstream(known()) << id << "\n";
  EXPECT_NE(open_error().find(id), std::string::npos);
  EXPECT_EQ(text_of(keys()), other);
}

TEST_F(KeyRingTest, AReloadThatFailsLeavesTheKeysAsTheyWere) {
  const auto ring = open();
  const std::string sealed = ring->seal(as_bytes("x"), "c");
  std::ofstream(keys(), std::ios::trunc) << "1 not-base64\n";
  EXPECT_FALSE(ring->reload());
  std::filesystem::remove(keys());
  EXPECT_FALSE(ring->reload());
  EXPECT_EQ(opened(*ring, sealed, "c"), "x");
}

TEST_F(KeyRingTest, WhatIsNoKeyFileIsRefusedWithoutShowingIt) {
  const std::string key = to_base64(Secret::random(32).bytes());
  for (const std::string& text : {std::string("# only a comment\n"), std::string("1 c2hvcnQ=\n"), "0 " + key + "\n",
                                  "x " + key + "\n", key + "\n", "1 " + key + "\n1 " + key + "\n", std::string("1")}) {
    std::filesystem::remove(keys());
    std::ofstream(keys()) << text;
    ASSERT_EQ(::chmod(keys().c_str(), 0600), 0);
    const std::string error = open_error();
    EXPECT_NE(error.find("not a key file"), std::string::npos) << text;
    EXPECT_EQ(error.find(key), std::string::npos);
  }
}

TEST_F(KeyRingTest, AMasterKeyThatIsNotThereSaysSo) {
  const auto one = KeyRing::in_memory();
  const auto other = KeyRing::in_memory();
  EXPECT_EQ(opened(*other, one->seal(as_bytes("x"), "c"), "c"), "key_unavailable");
}

TEST_F(KeyRingTest, TheIdsFileHoldsNoKey) {
  open();
  std::string line, key;
  std::ifstream file(keys());
  while (std::getline(file, line)) key = line.substr(line.find(' ') + 1);
  ASSERT_EQ(key.size(), 44u);
  EXPECT_EQ(text_of(known()).find(key), std::string::npos);
}

}  // namespace
}  // namespace verbena::auth
