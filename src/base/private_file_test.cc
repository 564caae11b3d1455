#include "base/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace verbena {
namespace {

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    folder_ = name;
    path_ = folder_ / "file";
  }
  ~SecretFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void put(std::string_view text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    ::chmod(path_.c_str(), mode);
  }
  std::string line(size_t most = 100, mode_t not_set = not_for_others) {
    const auto read = read_secret_line(path_, most, not_set);
    return read ? "read: " + std::string(read->text()) : read.error();
  }
  std::filesystem::path folder_, path_;
};

TEST_F(SecretFile, TheLineBreakAtTheEndIsNoPartOfALine) {
  for (const char* text : {"hunter2", "hunter2\n", "hunter2\r\n", "hunter2\n\n"}) {
    put(text);
    EXPECT_EQ(line(), "read: hunter2") << text;
  }
  EXPECT_EQ(read_secret_file(path_, 100, not_for_others)->text(), "hunter2\n\n") << "the whole of it";
}

TEST_F(SecretFile, WhatIsNoLineIsRefusedWithoutBeingShown) {
  for (const std::string& text : {std::string(), std::string("\n"), std::string("hunter\n2"),
                                  std::string("hunter\0", 7), std::string("\rhunter"), std::string(101, 'h')}) {
    put(text);
    EXPECT_FALSE(line().starts_with("read")) << text;
    EXPECT_EQ(line().find("hunter"), std::string::npos) << line();
  }
  put(std::string(100, 'h'));
  EXPECT_TRUE(line().starts_with("read"));
}

TEST_F(SecretFile, WhoElseMayReadOrWriteItIsAskedFor) {
  for (const mode_t mode : {0644, 0660, 0604, 0610, 0601, 0602}) {
    put("x", mode);
    EXPECT_NE(line().find("chmod"), std::string::npos) << std::oct << mode;
    EXPECT_EQ(line(100, for_whomever), "read: x") << std::oct << mode;
  }
  put("x", 0660);
  EXPECT_EQ(line(100, not_for_everybody), "read: x");
  put("x", 0604);
  EXPECT_NE(line(100, not_for_everybody).find("chmod"), std::string::npos);
}

// The start hung.
TEST_F(SecretFile, APipeKeepsNobodyWaiting) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(line(), "is not a regular file");
  path_ = folder_;
  EXPECT_EQ(line(100, for_whomever), "is not a regular file");
  path_ = "/dev/null";
  EXPECT_EQ(line(100, for_whomever), "is not a regular file");
  path_ = folder_ / "none";
  EXPECT_NE(line().find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace verbena
