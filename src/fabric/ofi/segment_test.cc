#include "fabric/ofi/segment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <map>

namespace verbena::fabric::ofi {
namespace {

namespace fs = std::filesystem;

// A machine with two InfiniBand ports, of which one is in the partition 0x8001, and a RoCE device with a VLAN.
class SegmentSysfs : public ::testing::Test {
 protected:
  SegmentSysfs() {
    std::string name = (fs::temp_directory_path() / "verbena-segment-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    root_ = name;
    write("class/infiniband/mlx5_0/ports/1/pkeys/0", "0xffff");
    write("class/infiniband/mlx5_0/ports/1/pkeys/1", "0x0001");
    write("class/infiniband/mlx5_0/ports/1/pkeys/2", "0x0000");
    write("class/infiniband/mlx5_1/ports/1/pkeys/0", "0xffff");
    write("class/infiniband/mlx5_2/ports/1/pkeys/0", "0xffff");
    write("class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/0", "eth0");
    write("class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/1", "eth0.100");
    write("class/net/ib0/pkey", "0xffff");
    write("class/net/ib0/device/infiniband/mlx5_0/dev", "231:192");
    write("class/net/ib0.8001/pkey", "0x8001");
    write("class/net/ib0.8001/device/infiniband/mlx5_0/dev", "231:192");
    write("class/net/eth0/mtu", "1500");
    write("class/net/eth0.100/mtu", "1500");
    machine_ = {.sys = root_,
                .addresses = [this] { return addresses_; },
                .vlan = [this](const std::string& interface) -> std::optional<uint16_t> {
                  const auto found = vlans_.find(interface);
                  return found == vlans_.end() ? std::nullopt : std::optional(found->second);
                }};
  }
  ~SegmentSysfs() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  std::string check(const Segment& segment, const std::string& address, const SegmentDevice& device = {}) {
    const auto done = check_segment(segment, device, address, machine_);
    return done ? "" : done.error();
  }
  std::string find(const Segment& segment, const SegmentDevice& device = {}) {
    const auto found = segment_address(segment, device, machine_);
    return found ? *found : found.error();
  }

  fs::path root_;
  std::vector<std::pair<std::string, std::string>> addresses_{
      {"lo", "127.0.0.1"},      {"ib0", "10.0.0.1"},     {"ib0.8001", "fe80::1"},   {"ib0.8001", "fd00::1"},
      {"ib0.8001", "10.1.0.1"}, {"eth0", "192.168.0.1"}, {"eth0.100", "10.100.0.1"}};
  std::map<std::string, uint16_t> vlans_{{"eth0.100", 100}};
  Interfaces machine_;
};

constexpr Segment partition1{.pkey = 0x8001, .vlan = {}}, limited1{.pkey = 0x0001, .vlan = {}};
constexpr Segment vlan100{.pkey = {}, .vlan = 100};

TEST_F(SegmentSysfs, AnAddressOfThePartitionIsTaken) {
  EXPECT_EQ(check(partition1, "10.1.0.1"), "");
  EXPECT_EQ(check(limited1, "10.1.0.1"), "") << "membership, full or limited, is the port's";
  EXPECT_EQ(check(partition1, "10.1.0.1", {.name = "mlx5_0", .port = 1}), "");
  EXPECT_EQ(check({.pkey = 0xffff, .vlan = {}}, "10.0.0.1"), "") << "the default partition";
}

TEST_F(SegmentSysfs, AnAddressElsewhereIsRefusedWithWords) {
  EXPECT_EQ(check(partition1, "10.0.0.1"),
            "rdma.pkey 0x8001: ib0 has the address 10.0.0.1 and is in the partition 0xffff: choose the address of an "
            "IPoIB interface of it, like ib0.8001");
  EXPECT_EQ(check(partition1, "192.168.0.1"),
            "rdma.pkey 0x8001: eth0 has the address 192.168.0.1 and is not an interface of InfiniBand: choose the "
            "address of an IPoIB interface of it, like ib0.8001");
  EXPECT_EQ(check(partition1, "10.9.9.9"), "rdma.pkey 0x8001: no interface has the address 10.9.9.9");
}

TEST_F(SegmentSysfs, APartitionThatNoPortIsAMemberOfIsRefused) {
  EXPECT_TRUE(check({.pkey = 0x8002, .vlan = {}}, "10.1.0.1")
                  .starts_with("rdma.pkey 0x8002: this machine's RDMA devices: no port is a member"));
  EXPECT_TRUE(check(partition1, "10.1.0.1", {.name = "mlx5_1", .port = {}})
                  .starts_with("rdma.pkey 0x8001: mlx5_1: no port is a member"));
  EXPECT_TRUE(check(partition1, "10.1.0.1", {.name = "mlx5_0", .port = 2})
                  .starts_with("rdma.pkey 0x8001: port 2 of mlx5_0: no port is a member"));
  EXPECT_TRUE(check(partition1, "10.1.0.1", {.name = "../mlx5_0", .port = {}}).find("no port is a member") !=
              std::string::npos);
}

TEST_F(SegmentSysfs, AVlanIsThatOfItsInterface) {
  EXPECT_EQ(check(vlan100, "10.100.0.1"), "");
  EXPECT_EQ(check(vlan100, "192.168.0.1"),
            "rdma.vlan 100: eth0 has the address 192.168.0.1 and is not a VLAN's interface: choose the address of an "
            "interface of it, like eth0.100");
  vlans_["eth0.100"] = 101;
  EXPECT_EQ(check(vlan100, "10.100.0.1"),
            "rdma.vlan 100: eth0.100 has the address 10.100.0.1 and is in the VLAN 101: choose the address of an "
            "interface of it, like eth0.100");
}

TEST_F(SegmentSysfs, FindsTheAddressOfASegment) {
  EXPECT_EQ(find(partition1), "10.1.0.1") << "IPv4 before IPv6";
  EXPECT_EQ(find(partition1, {.name = "mlx5_0", .port = {}}), "10.1.0.1");
  EXPECT_EQ(find(vlan100), "10.100.0.1");
  EXPECT_EQ(find(vlan100, {.name = "mlx5_2", .port = 1}), "10.100.0.1");
  EXPECT_EQ(find(vlan100, {.name = "mlx5_1", .port = {}}),
            "rdma.vlan 100: mlx5_1: no interface of it has an IP address: make an interface of it, like eth0.100, and "
            "give it one");
  std::erase_if(addresses_, [](const auto& one) { return one.second == "10.1.0.1"; });
  EXPECT_EQ(find(partition1), "fd00::1");
  std::erase_if(addresses_, [](const auto& one) { return one.second == "fd00::1"; });
  EXPECT_EQ(find(partition1),
            "rdma.pkey 0x8001: this machine's RDMA devices: no interface of it has an IP address: make an IPoIB "
            "interface of it, like ib0.8001, and give it one");
}

TEST_F(SegmentSysfs, TablesThatCannotBeReadHoldNothing) {
  write("class/infiniband/mlx5_0/ports/1/pkeys/1", "0x");
  EXPECT_NE(check(partition1, "10.1.0.1"), "");
  write("class/infiniband/mlx5_0/ports/1/pkeys/1", "0x18001");
  EXPECT_NE(check(partition1, "10.1.0.1"), "");
  write("class/infiniband/mlx5_0/ports/1/pkeys/1", "8001");
  EXPECT_NE(check(partition1, "10.1.0.1"), "");
}

TEST(Segment, LoopbackIsInNoVlan) {
  EXPECT_EQ(vlan_of("lo"), std::nullopt);
  EXPECT_EQ(vlan_of("no such interface with a very long name"), std::nullopt);
  EXPECT_FALSE(check_segment({.pkey = {}, .vlan = 5}, {}, "127.0.0.1", Interfaces::of_machine()));
}

}  // namespace
}  // namespace verbena::fabric::ofi
