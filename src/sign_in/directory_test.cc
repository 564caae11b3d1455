#include "sign_in/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "sign_in/test_directory.h"

namespace verbena::sign_in {
namespace {

using Why = Refusal::Kind;

class DirectoryClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  int64_t now_s = 1'767'323'045;
};

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() { open(test_directory_.settings()); }
  void open(DirectorySettings settings) {
    auto opened = Directory::open(std::move(settings), clock_);
    EXPECT_TRUE(opened) << opened.error();
    directory_ = std::move(*opened);
  }
  std::expected<Person, Refusal> ask(const std::string& client, const std::string& name,
                                     std::string_view password = "wrong") {
    return directory_->check(client, name, Secret(as_bytes(password)));
  }
  // The number of wrong passwords, of `count`, that reached the directory.
  int asked(int count, const std::function<std::pair<std::string, std::string>(int)>& who) {
    const int before = test_directory_.binds();
    for (int i = 0; i < count; ++i) {
      const auto [client, name] = who(i);
      const auto told = ask(client, name);
      EXPECT_FALSE(told);
    }
    return test_directory_.binds() - before;
  }
  static std::string number(std::string_view before, int i) { return std::string(before) + std::to_string(i); }

  DirectoryClock clock_;
  TestDirectory test_directory_;
  std::unique_ptr<Directory> directory_;
};

// Any client could lock out any user, in the directory, too: sixteen tries reached it, and it locks after five.
TEST_F(DirectoryTest, OfOneNameItIsAskedSoFewWrongPasswordsThatItNeedNotLockAnybody) {
  const auto from_everywhere = [](int i) { return std::pair(number("198.51.100.", i), std::string("alice")); };
  EXPECT_EQ(asked(100, from_everywhere), 4);
  EXPECT_EQ(ask("192.0.2.1", "ALICE", "right").error().kind, Why::busy) << "in whatever case";
  clock_.now_s += 299;
  EXPECT_EQ(asked(100, from_everywhere), 0);
  clock_.now_s += 1;
  EXPECT_EQ(asked(100, from_everywhere), 1);
}

TEST_F(DirectoryTest, HowManyItIsAskedIsConfigured) {
  DirectorySettings settings = test_directory_.settings();
  settings.tries = 2;
  settings.tries_every = std::chrono::seconds(10);
  open(std::move(settings));
  const auto alice = [](int) { return std::pair(std::string("198.51.100.1"), std::string("alice")); };
  EXPECT_EQ(asked(20, alice), 2);
  clock_.now_s += 10;
  EXPECT_EQ(asked(20, alice), 1);
}

TEST_F(DirectoryTest, StrangersDoNotKeepAnOwnerOutOfWhereHeCameInBefore) {
  ASSERT_TRUE(ask("192.0.2.1", "Alice", "right"));
  asked(100, [](int i) { return std::pair(number("198.51.100.", i), std::string("alice")); });
  EXPECT_EQ(ask("192.0.2.9", "alice", "right").error().kind, Why::busy) << "from an unfamiliar address";
  EXPECT_TRUE(ask("192.0.2.1", "alice", "right"));
  // There the owner's tries are counted separately.
  EXPECT_EQ(asked(20, [](int) { return std::pair(std::string("192.0.2.1"), std::string("alice")); }), 4);
  EXPECT_EQ(ask("192.0.2.1", "alice", "right").error().kind, Why::busy);
  EXPECT_TRUE(ask("192.0.2.1", "bob", "right"));
}

// Untested before: every test came from loopback.
TEST_F(DirectoryTest, OneAddressHasSoManyWrongOnesAndRightOnesAreGivenBack) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ask("192.0.2.1", number("u", i % 10), "right")) << i;
  EXPECT_EQ(asked(60, [](int i) { return std::pair(std::string("192.0.2.1"), number("v", i)); }), 32);
  EXPECT_EQ(ask("192.0.2.1", "w", "right").error().kind, Why::busy);
  EXPECT_TRUE(ask("192.0.2.2", "w", "right"));
  clock_.now_s += 2;
  EXPECT_TRUE(ask("192.0.2.1", "w", "right"));
  EXPECT_EQ(asked(60, [](int i) { return std::pair(std::string("192.0.2.1"), number("x", i)); }), 1);
}

TEST_F(DirectoryTest, AFewGuessesAtEachOfVeryManyNamesAreBoundedToo) {
  ASSERT_TRUE(ask("192.0.2.1", "alice", "right"));
  const auto everybody = [](int i) { return std::pair(number("198.51.", i), number("u", i)); };
  EXPECT_EQ(asked(300, everybody), 256);
  EXPECT_EQ(ask("192.0.2.2", "bob", "right").error().kind, Why::busy);
  EXPECT_TRUE(ask("192.0.2.1", "alice", "right")) << "where she was before";
  clock_.now_s += 1;
  EXPECT_EQ(asked(10, everybody), 1);
}

// Behind a proxy on this host all clients were exempt.
TEST_F(DirectoryTest, FromThisHostThereAreManyButNotWithoutEnd) {
  EXPECT_EQ(asked(200, [](int i) { return std::pair(std::string(), number("u", i)); }), 128);
  EXPECT_EQ(ask("", "alice", "right").error().kind, Why::busy);
  EXPECT_TRUE(ask("192.0.2.1", "alice", "right"));
}

TEST_F(DirectoryTest, WhatIsNoPasswordIsNotAsked) {
  for (const std::string_view none :
       {std::string_view(""), std::string_view("right\0x", 7), std::string_view("\0", 1)}) {
    EXPECT_EQ(ask("192.0.2.1", "alice", none).error().kind, Why::denied);
  }
  EXPECT_EQ(ask("192.0.2.1", std::string("alice\0x", 7), "right").error().kind, Why::denied);
  EXPECT_EQ(ask("192.0.2.1", "alice", std::string(1025, 'x')).error().kind, Why::denied);
  EXPECT_EQ(test_directory_.binds(), 0);
}

// A policy that denies by a group did not apply to users whose group was in another directory.
TEST_F(DirectoryTest, GroupsThatOthersHaveAreNotLeftOut) {
  DirectorySettings settings = test_directory_.settings();
  settings.group_base = "ou=groups";
  settings.group_filter = "(member=%d)";
  open(std::move(settings));
  const auto person = ask("192.0.2.1", "alice", "right");
  ASSERT_TRUE(person);
  EXPECT_EQ(person->groups, std::vector<std::string>{"cn=dev,o=x"});
  test_directory_.refer(true);
  EXPECT_EQ(ask("192.0.2.1", "alice", "right").error().kind, Why::no_answer);
}

TEST(FamiliarPlaces, AreBoundedByNameAndInAll) {
  FamiliarPlaces places(3, 2);
  places.remember("alice", "a");
  places.remember("bob", "b");
  for (const char* place : {"x", "y"}) places.remember("alice", place);
  EXPECT_FALSE(places.knows("alice", "a"));
  EXPECT_TRUE(places.knows("alice", "x"));
  EXPECT_TRUE(places.knows("alice", "y"));
  EXPECT_FALSE(places.knows("bob", "x"));
  places.remember("carol", "c");
  places.remember("dave", "d");
  EXPECT_FALSE(places.knows("bob", "b")) << "used longest ago";
  EXPECT_TRUE(places.knows("alice", "y"));
}

class DirectorySettingsTest : public testing::Test {
 protected:
  DirectorySettingsTest() {
    char pattern[] = "/tmp/verbena-ldap-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    config_.url = "ldaps://h";
    config_.lookup_dn = "cn=l";
    config_.user_base = "o=x";
    config_.lookup_password_file = folder_ / "password";
    put("a secret\n");
  }
  ~DirectorySettingsTest() override { std::filesystem::remove_all(folder_); }
  void put(std::string_view text, mode_t mode = 0600) {
    std::ofstream(config_.lookup_password_file, std::ios::binary) << text;
    ::chmod(config_.lookup_password_file.c_str(), mode);
  }
  std::string fault() {
    const auto read = read_directory_settings(config_);
    return read ? "" : read.error();
  }
  std::filesystem::path folder_;
  Config::SignIn::Ldap config_;
};

TEST_F(DirectorySettingsTest, ThePasswordIsReadFromAFileOfItsOwnersAlone) {
  const auto read = read_directory_settings(config_);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->lookup_password.text(), "a secret");
  for (const mode_t mode : {0400, 0440, 0640}) {
    put("a secret", mode);
    EXPECT_EQ(fault(), "") << std::oct << mode;
  }
  for (const mode_t mode : {0644, 0660, 0604, 0610, 0601}) {
    put("a secret", mode);
    EXPECT_NE(fault().find("lookup_password_file"), std::string::npos) << std::oct << mode;
  }
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("a\nb"), std::string("a\0b", 3), std::string(1025, 'x')}) {
    put(text);
    EXPECT_NE(fault(), "") << text;
  }
}

// It was opened, and the start hung.
TEST_F(DirectorySettingsTest, APipeIsNoPassword) {
  std::filesystem::remove(config_.lookup_password_file);
  ASSERT_EQ(::mkfifo(config_.lookup_password_file.c_str(), 0600), 0);
  EXPECT_NE(fault().find("regular file"), std::string::npos);
}

TEST_F(DirectorySettingsTest, AFilterIsOneFilter) {
  for (const char* good : {"(uid=%s)", "(|(uid=%s)(mail=%s))", "(&(a=b)(|(uid=%s)(c=\\28)))"}) {
    config_.user_filter = good;
    EXPECT_EQ(fault(), "") << good;
  }
  for (const char* bad :
       {"", "uid=%s", "(uid=%s", "(uid=%s))", "((uid=%s)", "(uid=%s)(a=b)", ")uid=%s(", "(uid=%s)x"}) {
    config_.user_filter = bad;
    EXPECT_NE(fault().find("user_filter"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace verbena::sign_in
