#include "server/data_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

namespace verbena::server {
namespace {

class DataDirectoryTest : public ::testing::Test {
 protected:
  DataDirectoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    base = name;
    ::unsetenv("VERBENA_ROOT_ACCESS_KEY");
    ::unsetenv("VERBENA_ROOT_SECRET_KEY");
  }
  ~DataDirectoryTest() override {
    ::unsetenv("VERBENA_ROOT_ACCESS_KEY");
    ::unsetenv("VERBENA_ROOT_SECRET_KEY");
    std::error_code ignored;
    std::filesystem::remove_all(base, ignored);
  }
  std::filesystem::path base;
};

TEST_F(DataDirectoryTest, IsPrivateAndHasOneOwner) {
  {
    auto first = DataDirectory::open(base / "d");
    ASSERT_TRUE(first) << first.error();
    struct stat status{};
    ASSERT_EQ(::stat((base / "d").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_FALSE(DataDirectory::open(base / "d"));
  }
  EXPECT_TRUE(DataDirectory::open(base / "d"));
}

TEST_F(DataDirectoryTest, AFileIsNoDirectory) {
  std::ofstream(base / "f") << "x";
  EXPECT_FALSE(DataDirectory::open(base / "f"));
}

TEST_F(DataDirectoryTest, RootKeysAreMadeOnceAndKeptPrivate) {
  auto directory = DataDirectory::open(base / "d").value();
  const auto made = root_keys(directory);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->from, RootKeys::From::generated);
  EXPECT_EQ(made->credentials.access_key.size(), 20u);
  EXPECT_EQ(made->credentials.secret_key.size(), 40u);
  struct stat status{};
  ASSERT_EQ(::stat((base / "d/credentials").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto again = root_keys(directory);
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->from, RootKeys::From::file);
  EXPECT_EQ(again->credentials.secret_key, made->credentials.secret_key);
}

TEST_F(DataDirectoryTest, KeysThatOthersCanReadAreRefused) {
  auto directory = DataDirectory::open(base / "d").value();
  ASSERT_TRUE(root_keys(directory));
  ::chmod((base / "d/credentials").c_str(), 0644);
  const auto keys = root_keys(directory);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().find("chmod 600"), std::string::npos) << keys.error();
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

// The index's files had mode 0644 in a directory of mode 0755: small objects, names and policies readable by all users.
TEST_F(DataDirectoryTest, WhatAnOlderServerLeftReadableIsTightened) {
  const mode_t before = ::umask(022);
  std::filesystem::create_directories(base / "d/index");
  std::ofstream(base / "d/index/000004.log") << "small objects";
  std::ofstream(base / "outside") << "not ours";
  std::filesystem::create_symlink(base / "outside", base / "d/link");
  ::chmod((base / "d").c_str(), 0755);
  auto directory = DataDirectory::open(base / "d");
  ASSERT_TRUE(directory) << directory.error();
  EXPECT_EQ(mode_of(base / "d"), 0700u);
  EXPECT_EQ(mode_of(base / "d/index"), 0700u);
  EXPECT_EQ(mode_of(base / "d/index/000004.log"), 0600u);
  EXPECT_EQ(mode_of(base / "outside"), 0644u);  // a link is not followed
  // Files that the process makes from now on are private, whatever mode it requests.
  std::ofstream(base / "d/later") << "x";
  EXPECT_EQ(mode_of(base / "d/later"), 0600u);
  ::umask(before);
}

TEST_F(DataDirectoryTest, ADamagedKeyFileIsNamedAndNeverReplaced) {
  auto directory = DataDirectory::open(base / "d").value();
  std::ofstream(base / "d/credentials") << "only one line";
  ::chmod((base / "d/credentials").c_str(), 0600);
  const auto keys = root_keys(directory);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().find("credentials"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(base / "d/credentials"), 13u);
}

TEST_F(DataDirectoryTest, TheEnvironmentGivesBothKeysOrNeither) {
  auto directory = DataDirectory::open(base / "d").value();
  ::setenv("VERBENA_ROOT_ACCESS_KEY", "operator", 1);
  EXPECT_FALSE(root_keys(directory));
  ::setenv("VERBENA_ROOT_SECRET_KEY", "a secret with blanks", 1);
  EXPECT_FALSE(root_keys(directory));
  ::setenv("VERBENA_ROOT_SECRET_KEY", "a-long-secret", 1);
  const auto keys = root_keys(directory);
  ASSERT_TRUE(keys) << keys.error();
  EXPECT_EQ(keys->from, RootKeys::From::environment);
  EXPECT_FALSE(std::filesystem::exists(base / "d/credentials"));
}

}  // namespace
}  // namespace verbena::server
