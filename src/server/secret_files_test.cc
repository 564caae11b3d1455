#include "server/secret_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace verbena::server {
namespace {

class SecretFiles : public ::testing::Test {
 protected:
  SecretFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    base = name;
    clear();
  }
  ~SecretFiles() override {
    clear();
    std::error_code ignored;
    std::filesystem::remove_all(base, ignored);
  }
  static void clear() {
    for (const char* name : {"VERBENA_ROOT_ACCESS_KEY", "VERBENA_ROOT_SECRET_KEY", "VERBENA_ROOT_ACCESS_KEY_FILE",
                             "VERBENA_ROOT_SECRET_KEY_FILE"})
      ::unsetenv(name);
  }
  void give(const char* name, const std::string& text) {
    const auto path = base / name;
    std::ofstream(path, std::ios::binary) << text;
    ::setenv((std::string(name) + "_FILE").c_str(), path.c_str(), 1);
  }
  std::filesystem::path base;
};

TEST_F(SecretFiles, TheLineBreakThatEditorsLeaveIsNoPartOfASecret) {
  give("VERBENA_ROOT_ACCESS_KEY", "ACCESS\r\n");
  give("VERBENA_ROOT_SECRET_KEY", "a secret of some length\n");
  ASSERT_TRUE(take_secret_files());
  EXPECT_STREQ(::getenv("VERBENA_ROOT_ACCESS_KEY"), "ACCESS");
  EXPECT_STREQ(::getenv("VERBENA_ROOT_SECRET_KEY"), "a secret of some length");
}

TEST_F(SecretFiles, WhatIsNoSecretIsRefusedWithoutBeingShown) {
  for (const std::string& text : {std::string("first secret\nsecond secret\n"), std::string(), std::string("\n"),
                                  std::string(2000, 's'), std::string("a\0secret", 8)}) {
    give("VERBENA_ROOT_SECRET_KEY", text);
    const auto done = take_secret_files();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().find("VERBENA_ROOT_SECRET_KEY_FILE"), std::string::npos);
    EXPECT_EQ(done.error().find("secret"), std::string::npos) << done.error();
    EXPECT_EQ(done.error().find('\n'), std::string::npos);
  }
}

TEST_F(SecretFiles, AMissingFileIsNamed) {
  ::setenv("VERBENA_ROOT_SECRET_KEY_FILE", (base / "nothing").c_str(), 1);
  EXPECT_NE(take_secret_files().error().find("No such file"), std::string::npos);
}

TEST_F(SecretFiles, BothFormsAtOnceAreRefused) {
  give("VERBENA_ROOT_ACCESS_KEY", "ACCESS\n");
  ::setenv("VERBENA_ROOT_ACCESS_KEY", "OTHER", 1);
  EXPECT_NE(take_secret_files().error().find("both set"), std::string::npos);
}

TEST_F(SecretFiles, ALineBreakInAVariableIsNamed) {
  ::setenv("VERBENA_ROOT_SECRET_KEY", "a secret of some length\n", 1);
  const auto done = take_secret_files();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().find("line break"), std::string::npos);
}

}  // namespace
}  // namespace verbena::server
