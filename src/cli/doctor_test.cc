#include "cli/doctor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace verbena::cli {
namespace {

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-doctor-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    roots.sys = root / "sys";
    roots.proc = root / "proc";
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  std::filesystem::path root;
  MachineRoots roots;
};

TEST_F(Doctor, WithoutADeviceSaysHowToMakeOneInSoftware) {
  write("sys/module/rdma_rxe/refcnt", "0");
  const Findings findings = check_devices(roots);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::warn);
  EXPECT_NE(findings[0].found.find("loaded"), std::string::npos);
  EXPECT_NE(findings[0].mend.find("rdma link add rxe0 type rxe netdev eth0"), std::string::npos);
}

TEST_F(Doctor, DescribesAPortAndItsGids) {
  const std::string port = "sys/class/infiniband/rxe0/ports/1/";
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "rate", "100 Gb/sec");
  write(port + "gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
  write(port + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write(port + "gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(port + "gid_attrs/types/1", "RoCE v2");
  const Findings findings = check_devices(roots);
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::ok) << findings[0].mend;
  EXPECT_EQ(findings[0].subject, "rdma device rxe0 port 1");
  EXPECT_NE(findings[0].found.find("2 GIDs (1 RoCE v2, 1 with an IP address)"), std::string::npos) << findings[0].found;
}

TEST_F(Doctor, ShowsTheGidTableAndASmallMtu) {
  const std::string port = "sys/class/infiniband/rxe0/ports/1/";
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write(port + "gid_attrs/ndevs/1", "eth7");
  write("sys/class/net/eth7/mtu", "1500");
  const Finding small = check_devices(roots)[0];
  EXPECT_NE(small.found.find("[1] 0000:0000:0000:0000:0000:ffff:0a00:0001"), std::string::npos) << small.found;
  EXPECT_NE(small.found.find("eth7 has MTU 1500"), std::string::npos) << small.found;
  EXPECT_NE(small.mend.find("ip link set dev eth7 mtu 4200"), std::string::npos);
  write("sys/class/net/eth7/mtu", "9000");
  EXPECT_TRUE(check_devices(roots)[0].mend.empty());
}

TEST_F(Doctor, SaysWhetherPacketsAreFiltered) {
  EXPECT_TRUE(check_firewall(roots)[0].mend.empty());
  write("sys/module/nf_tables/refcnt", "0");
  EXPECT_TRUE(check_firewall(roots)[0].mend.empty());
  write("sys/module/nf_tables/refcnt", "12");
  EXPECT_NE(check_firewall(roots)[0].mend.find("4791"), std::string::npos);
}

TEST_F(Doctor, APortThatIsDownOrHasNoAddressIsAWarning) {
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  write(port + "state", "1: DOWN");
  write(port + "link_layer", "InfiniBand");
  EXPECT_EQ(check_devices(roots)[0].health, Health::warn);
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
  const Findings findings = check_devices(roots);
  EXPECT_EQ(findings[0].health, Health::warn);
  EXPECT_NE(findings[0].mend.find("ip addr add"), std::string::npos);
}

TEST_F(Doctor, NoProviderAtAllFails) {
  const Findings findings = check_providers({});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::fail);
}

TEST_F(Doctor, ReadsMemoryFromProc) {
  write("proc/meminfo", "MemAvailable:    100000 kB\nHugePages_Total:     512\nHugePages_Free:      500");
  const Findings findings = check_memory(roots);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].found, "500 of 512 free (2 MiB each)");
  EXPECT_TRUE(findings[0].mend.empty());
  EXPECT_EQ(findings[1].health, Health::warn) << "100 MB are too little for the arena";
}

TEST_F(Doctor, MalformedEndpointsAreNamed) {
  EXPECT_EQ(check_ports("nonsense", "")[0].health, Health::fail);
  EXPECT_EQ(check_ports("http://127.0.0.1:9000", "x:y:z")[0].health, Health::fail);
}

constexpr const char* good_unit =
    "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=7\nType=notify\nWatchdogUSec=30s\n"
    "LimitMEMLOCK=infinity\nPrivateDevices=no\nUser=verbena\nNeedDaemonReload=no\n";

TEST_F(Doctor, FindsAUnitAsThePackageHasItSound) {
  for (const Finding& finding : explain_unit(good_unit)) EXPECT_EQ(finding.health, Health::ok) << finding.subject;
}

TEST_F(Doctor, ExplainsAUnitThatFailedForItsConfiguration) {
  std::string text = good_unit;
  text.replace(text.find("ActiveState=active"), 18, "ActiveState=failed\nExecMainStatus=2");
  const Findings findings = explain_unit(text);
  EXPECT_EQ(findings[0].health, Health::fail);
  EXPECT_NE(findings[0].mend.find("verbena config --check"), std::string::npos);
}

TEST_F(Doctor, NamesWhatAnOverrideTookFromTheUnit) {
  std::string text = good_unit;
  text.replace(text.find("LimitMEMLOCK=infinity"), 21, "LimitMEMLOCK=8388608");
  text.replace(text.find("WatchdogUSec=30s"), 16, "WatchdogUSec=0");
  size_t warnings = 0;
  for (const Finding& finding : explain_unit(text)) warnings += finding.health == Health::warn ? 1 : 0;
  EXPECT_EQ(warnings, 2u);
}

TEST_F(Doctor, KnowsAMachineWithoutSystemdAndOneWithoutTheUnit) {
  roots.run = root / "run";
  EXPECT_NE(check_systemd(roots)[0].mend.find("verbena server DIR"), std::string::npos);
  EXPECT_NE(explain_unit("LoadState=not-found\n")[0].mend.find("package"), std::string::npos);
}

}  // namespace
}  // namespace verbena::cli
