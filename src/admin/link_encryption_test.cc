#include "admin/link_encryption.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/xfrm.h>

#include "admin/test_netlink.h"

namespace verbena::admin {
namespace {

void append_offload(std::vector<std::byte>& to, std::optional<uint8_t> flags) {
  if (!flags) return;
  xfrm_user_offload offload{};
  offload.ifindex = 1;
  offload.flags = *flags;
  append_attribute(to, XFRMA_OFFLOAD_DEV, offload);
}

// A message with one association; `flags`: of its offload to lo, none without.
std::vector<std::byte> association(uint32_t spi, std::optional<uint8_t> flags) {
  std::vector<std::byte> body;
  xfrm_usersa_info info{};
  info.id.spi = htonl(spi);
  append_bytes(body, &info, sizeof info, NLMSG_ALIGN(sizeof info));
  append_attribute(body, XFRMA_SRCADDR, uint8_t{0});
  append_offload(body, flags);
  return message(XFRM_MSG_NEWSA, body);
}

struct Policy {
  uint8_t direction = XFRM_POLICY_OUT, action = XFRM_POLICY_ALLOW;
  const char* from = "10.0.0.1";
  const char* to = "10.0.0.2";
  std::optional<uint8_t> offload = uint8_t{4};
  bool optional = false;
  uint8_t protocol = 0, proto = IPPROTO_ESP;
  uint16_t port_mask = 0;
  bool tunnel_before = false;  // another template first
};

std::vector<std::byte> policy(const Policy& wanted) {
  std::vector<std::byte> body;
  xfrm_userpolicy_info info{};
  info.dir = wanted.direction;
  info.action = wanted.action;
  info.sel.family = AF_INET;
  info.sel.prefixlen_s = info.sel.prefixlen_d = 32;
  info.sel.proto = wanted.protocol;
  info.sel.dport_mask = wanted.port_mask;
  ::inet_pton(AF_INET, wanted.from, &info.sel.saddr);
  ::inet_pton(AF_INET, wanted.to, &info.sel.daddr);
  append_bytes(body, &info, sizeof info, NLMSG_ALIGN(sizeof info));
  std::vector<std::byte> templates;
  for (const bool tunnel : {true, false}) {
    if (tunnel && !wanted.tunnel_before) continue;
    xfrm_user_tmpl use{};
    use.id.proto = tunnel ? uint8_t{IPPROTO_AH} : wanted.proto;
    use.mode = tunnel ? XFRM_MODE_TUNNEL : XFRM_MODE_TRANSPORT;
    use.optional = wanted.optional ? 1 : 0;
    append_bytes(templates, &use, sizeof use, sizeof use);
  }
  append_attribute(body, XFRMA_TMPL, templates);
  append_offload(body, wanted.offload);
  return message(XFRM_MSG_NEWPOLICY, body);
}

std::vector<std::string> paths(std::initializer_list<Policy> wanted, const char* interface = "lo") {
  std::vector<std::byte> messages;
  for (const Policy& one : wanted) {
    const auto more = policy(one);
    messages.insert(messages.end(), more.begin(), more.end());
  }
  std::vector<IpsecPolicy> found;
  EXPECT_EQ(read_policies(messages, found), Dump::goes_on);
  EXPECT_EQ(found.size(), wanted.size());
  return encrypted_paths(found, interface);
}

Policy way_back() { return {.direction = XFRM_POLICY_IN, .from = "10.0.0.2", .to = "10.0.0.1"}; }

TEST(LinkEncryption, AnInterfacesFeaturesAreTheKernels) {
  const LinkFeatures of_loopback = link_features("lo");
  EXPECT_NE(of_loopback.ipsec, Offload::unknown) << "every kernel names the features of its loopback";
  EXPECT_NE(of_loopback.macsec, Offload::on);
  EXPECT_EQ(link_features("no-such-device").ipsec, Offload::unknown);
  EXPECT_EQ(link_features(std::string(300, 'x')).macsec, Offload::unknown);
}

TEST(LinkEncryption, AssociationsAreReadWithTheirOffload) {
  std::vector<std::byte> messages = association(7, std::nullopt);
  for (const uint8_t flags : {4, 1}) {
    const auto more = association(8, flags);
    messages.insert(messages.end(), more.begin(), more.end());
  }
  std::vector<IpsecAssociation> found;
  EXPECT_EQ(read_associations(messages, found), Dump::goes_on);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].identifier, 7u);
  EXPECT_EQ(found[0].device, "");
  EXPECT_EQ(found[1].device, "lo");
  EXPECT_TRUE(found[1].packet);
  EXPECT_FALSE(found[2].packet) << "crypto offload: RDMA packets do not pass it";
}

TEST(LinkEncryption, APathIsEncryptedByPoliciesOfBothWaysInPacketOffload) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(paths({Policy(), way_back()}), Paths{"10.0.0.1/32 to 10.0.0.2/32"});
  EXPECT_EQ(paths({Policy(), way_back()}, "eth0"), Paths()) << "another device";
  EXPECT_EQ(paths({Policy()}), Paths()) << "what comes back is not encrypted";
  EXPECT_EQ(paths({way_back()}), Paths());
  EXPECT_EQ(paths({{.offload = std::nullopt}, way_back()}), Paths()) << "the kernel's own, which RDMA passes by";
  EXPECT_EQ(paths({{.offload = uint8_t{1}}, way_back()}), Paths()) << "crypto offload";
  EXPECT_EQ(paths({{.action = XFRM_POLICY_BLOCK}, way_back()}), Paths()) << "nothing is sent there";
  EXPECT_EQ(paths({{.optional = true}, way_back()}), Paths()) << "packets may go without";
  EXPECT_EQ(paths({{.proto = IPPROTO_AH}, way_back()}), Paths()) << "authenticated, but readable";
  EXPECT_EQ(paths({{.port_mask = 0xffff}, way_back()}), Paths()) << "one port's packets alone";
  EXPECT_EQ(paths({{.tunnel_before = true}, way_back()}), Paths()) << "ESP ends where the tunnel does";
  EXPECT_EQ(paths({{.protocol = IPPROTO_UDP}, way_back()}), Paths());
  Policy udp_back = way_back();
  udp_back.protocol = IPPROTO_UDP;
  EXPECT_EQ(paths({{.protocol = IPPROTO_UDP}, udp_back}), Paths{"10.0.0.1/32 to 10.0.0.2/32 (IP protocol 17)"});
}

TEST(LinkEncryption, MessagesThatLieAboutTheirLengthEndTheReading) {
  with_damage(association(9, 4), [](Bytes bad) {
    std::vector<IpsecAssociation> found;
    (void)read_associations(bad, found);
    EXPECT_LE(found.size(), 1u);
  });
  with_damage(policy({}), [](Bytes bad) {
    std::vector<IpsecPolicy> found;
    (void)read_policies(bad, found);
    EXPECT_LE(found.size(), 1u);
  });
}

}  // namespace
}  // namespace verbena::admin
