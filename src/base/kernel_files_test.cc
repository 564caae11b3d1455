#include "base/kernel_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace verbena {
namespace {

class KernelFiles : public testing::Test {
 protected:
  KernelFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-kernel-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~KernelFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(KernelFiles, NamesComeInOrderAndNoMoreThanAsked) {
  for (const char* name : {"mlx5_1", "mlx5_0", "irdma0"}) std::filesystem::create_directory(folder_ / name);
  EXPECT_EQ(entries_of(folder_), (std::vector<std::string>{"irdma0", "mlx5_0", "mlx5_1"}));
  EXPECT_EQ(entries_of(folder_, 2).size(), 2u);
}

TEST_F(KernelFiles, WhatCannotBeReadIsEmpty) {
  EXPECT_TRUE(entries_of(folder_ / "absent").empty());
  EXPECT_EQ(first_line(folder_ / "absent"), "");
  std::ofstream(folder_ / "state") << "4: ACTIVE\nmore\n";
  EXPECT_TRUE(entries_of(folder_ / "state").empty());
  EXPECT_EQ(first_line(folder_ / "state"), "4: ACTIVE");
}

}  // namespace
}  // namespace verbena
