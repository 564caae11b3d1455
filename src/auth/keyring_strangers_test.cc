// What strangers with access to the store, lost answers and files that cannot be written do to shared key rings.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "auth/keyring.h"
#include "auth/sealed_keys.h"
#include "auth/test_key_rings.h"
#include "base/checksum.h"

namespace verbena::auth {
namespace {

using Ring = std::unique_ptr<KeyRing>;

class StrangersTest : public SharedKeyRingTest {
 protected:
  void SetUp() override {
    SharedKeyRingTest::SetUp();
    first_ = started("a");
    copy_keys("a", "b");
    second_ = started("b");
  }
  Ring started(const std::string& server) {
    auto ring = join(server);
    EXPECT_TRUE(ring) << ring.error();
    return ring ? std::move(*ring) : nullptr;
  }
  void rotate_all() {
    tell({first_.get(), second_.get()});
    rotate("a");
    ASSERT_TRUE(first_->reload());
    ASSERT_EQ(second_->newest_id(), first_->newest_id());
  }
  // Texts of a stranger that has this server's key file as it is now, with one more key.
  struct Forged {
    std::string ids, sealed, id;
  };
  Forged forge(const std::string& from) {
    const std::string thief = "thief" + std::to_string(thieves_++);
    copy_keys(from, thief);
    SharedIds ids, sealed;
    const auto ring = KeyRing::open(key_file(thief), id_file(thief), KeyRing::Shared{ids, sealed});
    EXPECT_TRUE(ring && (*ring)->share());
    const std::string id = rotate(thief);
    EXPECT_TRUE((*ring)->reload());
    return {*ids.text, *sealed.text, id};
  }
  Ring first_, second_;
  int thieves_ = 0;
};

TEST_F(StrangersTest, WithAnOldKeyAndTheListOfIdsInHandNoServerTakesAStrangersKey) {
  const Forged forged = forge("a");
  const std::string old_id = first_->newest_id() + "\n";
  rotate_all();
  const std::string newest = second_->newest_id();
  ASSERT_NE(forged.id, newest);
  tell({});

  for (const std::optional<std::string>& ids : {std::optional(forged.ids), std::optional<std::string>(),
                                                std::optional(*ids_.text + forged.ids), std::optional(old_id)}) {
    EXPECT_FALSE(second_->take(ids, forged.sealed));
    EXPECT_FALSE(second_->take(ids, forged.sealed + *sealed_.text));
    EXPECT_EQ(second_->size(), 2u);
    EXPECT_EQ(second_->newest_id(), newest);
    EXPECT_NE(text_of(id_file("b")).find(newest), std::string::npos);
  }
  // Nor at its next start, or at a reload.
  for (const bool with_ids_file : {true, false}) {
    ids_.text = old_id;
    sealed_.text = forged.sealed;
    EXPECT_TRUE(second_->reload());
    EXPECT_EQ(second_->size(), 2u);
    ids_.text = old_id;
    sealed_.text = forged.sealed;
    if (!with_ids_file) std::filesystem::remove(id_file("b"));
    const auto again = join("b");
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ((*again)->size(), 2u);
    EXPECT_EQ((*again)->newest_id(), newest);
    EXPECT_NE(ids_.text->find(newest), std::string::npos) << "the list is whole again";
  }
}

TEST_F(StrangersTest, AnOlderListOfIdsOrNoneMakesNoServerGoBackToAnOlderKey) {
  const std::string before = *ids_.text;
  rotate_all();
  rotate_all();
  const std::string newest = second_->newest_id();
  for (const std::optional<std::string>& ids :
       {std::optional(before), std::optional<std::string>(), std::optional<std::string>("no ids\n"),
        std::optional(std::string(1 << 20, 'a'))}) {
    const auto told = second_->take(ids, sealed_.text);
    EXPECT_FALSE(told) << "it is reported";
    EXPECT_EQ(second_->newest_id(), newest);
    EXPECT_EQ(second_->size(), 3u);
  }
  EXPECT_TRUE(second_->take(ids_.text, sealed_.text));
}

TEST_F(StrangersTest, WithoutTheListOfIdsAKeyThatNotAllHaveYetIsNotUsed) {
  const std::string old = second_->newest_id();
  rotate("a");
  sealed_.told = [&] {
    EXPECT_TRUE(second_->take(ids_.text, sealed_.text));
    EXPECT_FALSE(second_->take(std::nullopt, sealed_.text));
    EXPECT_EQ(second_->size(), 2u);
    EXPECT_EQ(second_->newest_id(), old);
  };
  ASSERT_TRUE(first_->reload());
  EXPECT_EQ(second_->newest_id(), old);
  EXPECT_EQ(text_of(id_file("b")).find(first_->newest_id()), std::string::npos) << "held, and not used";
}

TEST(SealedKeysTest, AVersionThatLeapsOrLeavesNoneToLaterKeysIsNotTaken) {
  const auto key = [](uint32_t version) { return std::make_shared<const MasterKey>(version, Secret::random(32)); };
  for (const auto& [old, version, is_taken] :
       {std::tuple{1u, 2u, true}, std::tuple{1u, 257u, true}, std::tuple{1u, 258u, false},
        std::tuple{1u, UINT32_MAX, false}, std::tuple{UINT32_MAX - 2, UINT32_MAX - 1, true},
        std::tuple{UINT32_MAX - 1, UINT32_MAX, false}, std::tuple{5u, 5u, false}, std::tuple{5u, 4u, false}}) {
    const MasterKeys both{key(old), key(version)};
    MasterKeys keys{both[0]};
    // As with_sealed_keys() seals, for any version.
    std::string plain{static_cast<char>(version >> 24), static_cast<char>(version >> 16),
                      static_cast<char>(version >> 8), static_cast<char>(version)};
    plain += as_text(both[1]->key.bytes());
    const std::string id = to_hex(both[1]->id);
    const std::string text = id + " " + to_base64(as_bytes(both[0]->seal(as_bytes(plain), "master key " + id))) + "\n";
    std::string trouble;
    EXPECT_EQ(take_sealed_keys(keys, text, {to_hex(both[0]->id)}, trouble), is_taken ? 1u : 0u) << version;
    EXPECT_EQ(trouble.empty(), is_taken) << version;
    if (!is_taken && version > old) EXPECT_EQ(with_sealed_keys(both, ""), "") << version;
  }
}

TEST(SealedKeysTest, AKeyThatGotALaterVersionIsSealedAnew) {
  const auto one = std::make_shared<const MasterKey>(1, Secret::random(32));
  const auto two = std::make_shared<const MasterKey>(2, Secret::random(32));
  const auto other = std::make_shared<const MasterKey>(2, Secret::random(32));
  const auto later = std::make_shared<const MasterKey>(3, two->key.copy());
  const std::string text = with_sealed_keys({one, other, later}, with_sealed_keys({one, two}, ""));
  MasterKeys keys{one};
  std::string trouble;
  EXPECT_EQ(take_sealed_keys(keys, text, {to_hex(one->id), to_hex(two->id), to_hex(other->id)}, trouble), 2u);
  EXPECT_EQ(trouble, "");
}

TEST_F(StrangersTest, AFileWhoseVersionsAreAtTheirEndTakesNoMoreKeys) {
  const std::string text = text_of(key_file("a"));
  const std::string key = text.substr(text.rfind(' '));
  std::ofstream(key_file("a"), std::ios::trunc) << "4294967293" << key;
  EXPECT_TRUE(KeyRing::rotate(key_file("a")));
  EXPECT_FALSE(KeyRing::rotate(key_file("a")));
  std::ofstream(key_file("a"), std::ios::trunc) << "4294967295" << key;
  const auto rotated = KeyRing::rotate(key_file("a"));
  ASSERT_FALSE(rotated);
  EXPECT_NE(rotated.error().find("full"), std::string::npos);
}

TEST_F(StrangersTest, AKeyThatMayBeNotedAlreadyIsNotRemoved) {
  first_.reset();
  second_.reset();
  for (const bool is_readable : {true, false}) {
    const std::string server = is_readable ? "c" : "d";
    ids_.text.reset();
    sealed_.text.reset();
    ids_.lose_answer = true;
    if (!is_readable) ids_.meanwhile = [&] { ids_.unreadable = true; };
    EXPECT_FALSE(join(server));
    ids_.lose_answer = ids_.unreadable = false;
    ids_.meanwhile = [] {};
    ASSERT_TRUE(std::filesystem::exists(key_file(server))) << "the only key, whose id the servers have";
    const auto again = join(server);
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(*ids_.text, (*again)->newest_id() + "\n");
  }
}

TEST_F(StrangersTest, OfALostAnswerToARotationEachServerHasTheKeyToDecrypt) {
  tell({first_.get(), second_.get()});
  rotate("a");
  ids_.lose_answer = true;
  EXPECT_FALSE(first_->reload());
  EXPECT_TRUE(second_->take(ids_.text, sealed_.text)) << "it was told later";
  EXPECT_EQ(opened(*first_, second_->seal(as_bytes("new"), "c"), "c"), "new");
  ids_.lose_answer = false;
  EXPECT_TRUE(first_->reload());
  EXPECT_EQ(first_->newest_id(), second_->newest_id());
}

TEST_F(StrangersTest, AServerThatGivesItsOwnKeyTakesAnotherOneMeanwhile) {
  tell({first_.get(), second_.get()});
  rotate("b");
  bool came = false;
  sealed_.meanwhile = [&] {
    if (std::exchange(came, true)) return;
    rotate("a");
    ASSERT_TRUE(first_->reload());
    EXPECT_EQ(opened(*second_, first_->seal(as_bytes("x"), "c"), "c"), "x") << "before it is confirmed";
  };
  ASSERT_TRUE(second_->reload());
  ASSERT_TRUE(came);
  EXPECT_EQ(first_->size(), 3u);
  EXPECT_EQ(second_->size(), 3u);
  EXPECT_EQ(first_->newest_id(), second_->newest_id());
  EXPECT_TRUE(join("a"));
  EXPECT_TRUE(join("b"));
}

TEST_F(StrangersTest, AKeyThatTheFileCouldNotTakeIsWrittenAsSoonAsItCan) {
  for (const bool by_reload : {false, true}) {
    tell({first_.get()});
    const std::string old = text_of(key_file("b"));
    const std::string added = rotate("a");
    ASSERT_TRUE(first_->reload());
    std::filesystem::remove(key_file("b"));
    std::filesystem::create_directory(key_file("b"));
    EXPECT_FALSE(second_->take(ids_.text, sealed_.text));
    EXPECT_EQ(second_->newest_id(), added);
    std::filesystem::remove(key_file("b"));
    std::ofstream(key_file("b")) << old;
    ASSERT_EQ(::chmod(key_file("b").c_str(), 0600), 0);
    if (by_reload) {
      const auto done = second_->reload();
      ASSERT_TRUE(done) << done.error();
    } else {
      const auto done = second_->take(ids_.text, sealed_.text);
      ASSERT_TRUE(done) << done.error();
    }
    EXPECT_EQ(text_of(key_file("b")), text_of(key_file("a"))) << by_reload;
    EXPECT_EQ(second_->newest_id(), added);
  }
}

TEST_F(StrangersTest, AKeyFileThatIsALinkStaysOne) {
  const auto real = folder_ / "real.keys";
  std::filesystem::rename(key_file("b"), real);
  std::filesystem::create_symlink(real, key_file("b"));
  rotate_all();
  EXPECT_TRUE(std::filesystem::is_symlink(key_file("b")));
  EXPECT_EQ(text_of(real), text_of(key_file("a")));
}

}  // namespace
}  // namespace verbena::auth
