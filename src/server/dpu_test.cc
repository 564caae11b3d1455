#include "server/dpu.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace verbena::server {
namespace {

class Dpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-dpu-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& bytes) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path, std::ios::binary) << bytes;
  }
  std::string error_of(const Config::Dpu& dpu) {
    const auto checked = check_dpu(dpu, root);
    return checked ? "" : checked.error();
  }
  std::filesystem::path root;
};

TEST_F(Dpu, AnyMachineServesWithoutTheKeys) {
  const auto checked = check_dpu({}, root);
  ASSERT_TRUE(checked);
  EXPECT_EQ(*checked, "");
}

TEST_F(Dpu, AMachineThatIsNoneIsRefusedWithItsName) {
  EXPECT_NE(error_of({.enabled = true}).find("(device tree: none; DMI: none)"), std::string::npos);
  write("sys/class/dmi/id/sys_vendor", "QEMU\n");
  write("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n");
  EXPECT_NE(error_of({.enabled = true}).find("DMI: QEMU Standard PC (Q35 + ICH9, 2009))"), std::string::npos)
      << error_of({.enabled = true});
}

TEST_F(Dpu, OneIsKnownByItsDmiOrItsDeviceTree) {
  write("sys/class/dmi/id/product_name", "BlueField-3 DPU\n");
  EXPECT_EQ(error_of({.enabled = true, .enable_rdma = true}), "");
  std::filesystem::remove_all(root / "sys");
  EXPECT_NE(error_of({.enabled = true}), "");
  write("proc/device-tree/compatible", std::string("vendor,board\0amd,pensando-elba\0", 31));
  const auto checked = check_dpu({.enabled = true}, root);
  ASSERT_TRUE(checked);
  EXPECT_EQ(*checked, "dpu: this server runs on a DPU (device tree: vendor,board amd,pensando-elba; DMI: none)");
}

TEST_F(Dpu, WhatCannotBeIsRefusedWithItsCause) {
  write("sys/class/dmi/id/product_name", "BlueField SoC");
  const Config::Dpu crypto{.enabled = true, .enable_crypto = true};
  EXPECT_TRUE(check_dpu(crypto, root, /*has_aes=*/true));
  EXPECT_TRUE(check_dpu(crypto, root, /*has_aes=*/false).error().starts_with("dpu.enable_crypto: "));
  const Config::Dpu rdma{.enabled = true, .enable_rdma = true};
  EXPECT_FALSE(check_dpu_rdma(rdma, "", ""));
  EXPECT_FALSE(check_dpu_rdma(rdma, "tcp", "eth0")) << "libfabric's, for tokens alone";
  EXPECT_EQ(check_dpu_rdma(rdma, "verbs;ofi_rxm", "mlx5_0").value(),
            "dpu.enable_rdma: the native door's RDMA goes by mlx5_0 (verbs;ofi_rxm)");
  EXPECT_EQ(check_dpu_rdma({.enabled = true}, "", "").value(), "");
}

TEST_F(Dpu, ALongOrStrangeNameIsCutAndMadePrintable) {
  write("sys/class/dmi/id/product_name", "BlueField \x1b[31m" + std::string(10'000, 'x'));
  const auto checked = check_dpu({.enabled = true}, root);
  ASSERT_TRUE(checked);
  EXPECT_LT(checked->size(), 400u);
  EXPECT_EQ(checked->find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace verbena::server
