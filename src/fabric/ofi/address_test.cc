#include "fabric/ofi/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "fabric/ofi/gid.h"
#include "fabric/ofi/tcp_sockets.h"

namespace verbena::fabric::ofi {
namespace {

EndpointAddress at(const char* ip, uint16_t port) { return {boost::asio::ip::make_address(ip), port}; }

TEST(EndpointName, SurvivesARoundTrip) {
  for (const auto& address : {at("10.1.2.3", 9000), at("fd00::1", 1)}) {
    EXPECT_EQ(decode_socket_name(encode_socket_name(address)), address);
  }
}

TEST(EndpointName, MappedIntoIpv6IsIpv4) {
  EXPECT_EQ(decode_socket_name(encode_socket_name(at("::ffff:10.1.2.3", 5))), at("10.1.2.3", 5));
}

TEST(EndpointName, OfTheWrongSizeForItsFamilyIsNone) {
  std::string v4 = encode_socket_name(at("10.1.2.3", 9000));
  std::string v6 = encode_socket_name(at("fd00::1", 9000));
  EXPECT_FALSE(decode_socket_name(v4 + std::string(12, '\0')));
  EXPECT_FALSE(decode_socket_name(v6.substr(0, 16)));
  EXPECT_FALSE(decode_socket_name(v6 + "x"));
}

TEST(EndpointName, IsComparedWithAddressesAsText) {
  EXPECT_TRUE(same_address(boost::asio::ip::make_address("10.1.2.3"), "10.1.2.3"));
  EXPECT_TRUE(same_address(boost::asio::ip::make_address("10.1.2.3"), "::ffff:10.1.2.3"));
  EXPECT_TRUE(same_address(boost::asio::ip::make_address("fe80::1%1"), "fe80::1%eth0"));
  EXPECT_FALSE(same_address(boost::asio::ip::make_address("127.0.0.1"), "127.0.0.2"));
  EXPECT_FALSE(same_address(boost::asio::ip::make_address("127.0.0.1"), "localhost"));
}

TEST(TcpSockets, AListenerThatRefusesIsNotReachable) {
  const int first = next_descriptor();
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size), 0);
  const std::string name(reinterpret_cast<const char*>(&own), size);
  if (!refuse_connections(name, first)) GTEST_SKIP() << "this kernel takes no socket filter";
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const timeval limit{0, 200'000};
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  EXPECT_NE(connect(client, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  close(client);
  close(listener);
}

// A fake /sys/class/infiniband.
class GidSysfs : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/verbena-gid-XXXXXX";
    root = mkdtemp(path);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void gid(const std::string& device, int index, const char* value, const char* type, const char* interface) {
    const auto port = root / device / "ports" / "1";
    for (const auto& [folder, text] : {std::pair<const char*, const char*>{"gids", value},
                                       {"gid_attrs/types", type},
                                       {"gid_attrs/ndevs", interface}}) {
      std::filesystem::create_directories(port / folder);
      std::ofstream(port / folder / std::to_string(index)) << text << '\n';
    }
    std::ofstream(port / "link_layer") << "Ethernet\n";
  }
  std::filesystem::path root;
};

TEST_F(GidSysfs, PrefersRoceV2OverIpv4) {
  gid("mlx5_0", 0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1", "none0");
  gid("mlx5_0", 1, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "IB/RoCE v1", "none0");
  gid("mlx5_0", 2, "0000:0000:0000:0000:0000:ffff:0a4d:0002", "RoCE v2", "none0");
  EXPECT_EQ(gid_source_address({.device = "mlx5_0", .port = 1, .index = {}}, root).value(), "10.77.0.2");
  EXPECT_EQ(gid_source_address({.device = "", .port = 1, .index = {}}, root).value(), "10.77.0.2");
  EXPECT_EQ(gid_source_address({.device = "mlx5_0", .port = 1, .index = 1}, root).value(), "10.77.0.1");
}

TEST_F(GidSysfs, TakesTheAddressOfItsInterface) {
  gid("mlx5_0", 0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1", "lo");
  EXPECT_EQ(gid_source_address({.device = "mlx5_0", .port = 1, .index = 0}, root).value(), "127.0.0.1");
}

TEST_F(GidSysfs, SaysSoWhenThereIsNone) {
  gid("mlx5_0", 0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1", "none0");
  for (const GidChoice& choice :
       {GidChoice{.device = "mlx5_0", .port = 1, .index = 0}, GidChoice{.device = "mlx5_0", .port = 1, .index = 7},
        GidChoice{.device = "mlx5_0", .port = 2, .index = {}}, GidChoice{.device = "mlx5_9", .port = 1, .index = {}},
        GidChoice{.device = "../mlx5_0", .port = 1, .index = {}}}) {
    const auto address = gid_source_address(choice, root);
    ASSERT_FALSE(address);
    EXPECT_EQ(address.error().code, Errc::bad_config);
  }
}

TEST_F(GidSysfs, KnowsIwarp) {
  gid("cxgb4_0", 0, "fe80::1", "", "none0");
  std::ofstream(root / "cxgb4_0" / "node_type") << "4: RNIC\n";
  EXPECT_TRUE(is_iwarp("cxgb4_0", root));
  EXPECT_FALSE(is_iwarp("mlx5_0", root));
}

// The first interface of this machine that has an IPv4 address and a hardware address.
struct Interface {
  std::string gid, address;
};
std::optional<Interface> any_interface() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  std::map<std::string, Interface> seen;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    Interface& interface = seen[i->ifa_name];
    if (i->ifa_addr->sa_family == AF_INET && interface.address.empty()) {
      char text[INET_ADDRSTRLEN] = {};
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
      interface.address = text;
    } else if (i->ifa_addr->sa_family == AF_PACKET) {
      const auto& link = *reinterpret_cast<const sockaddr_ll*>(i->ifa_addr);
      const auto* mac = link.sll_addr;
      if (link.sll_halen != 6 || std::all_of(mac, mac + 6, [](unsigned char c) { return c == 0; })) continue;
      interface.gid =
          fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}::", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    }
  }
  freeifaddrs(list);
  for (const auto& [name, interface] : seen) {
    if (!interface.gid.empty() && !interface.address.empty()) return interface;
  }
  return std::nullopt;
}

TEST_F(GidSysfs, FindsTheInterfaceOfAnIwarpDeviceByItsHardwareAddress) {
  const auto interface = any_interface();
  if (!interface) GTEST_SKIP() << "no network interface with a hardware address";
  gid("siw0", 0, interface->gid.c_str(), "IB/RoCE v1", "");
  const GidChoice choice{.device = "siw0", .port = 1, .index = {}};
  EXPECT_FALSE(gid_source_address(choice, root));
  std::ofstream(root / "siw0" / "node_type") << "4: RNIC\n";
  EXPECT_EQ(gid_source_address(choice, root).value(), interface->address);
}

}  // namespace
}  // namespace verbena::fabric::ofi
