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
  uint8_t mode = XFRM_MODE_TRANSPORT, bits = 32;
  const char* tunnel_from = "0.0.0.0";
  const char* tunnel_to = "0.0.0.0";
  xfrm_mark mark = {};
  uint32_t if_id = 0, user = 0;
  int ifindex = 0;
  bool label = false;
};

std::vector<std::byte> policy(const Policy& wanted) {
  std::vector<std::byte> body;
  xfrm_userpolicy_info info{};
  info.dir = wanted.direction;
  info.action = wanted.action;
  info.sel.family = AF_INET;
  info.sel.prefixlen_s = info.sel.prefixlen_d = wanted.bits;
  info.sel.user = wanted.user;
  info.sel.ifindex = wanted.ifindex;
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
    use.mode = tunnel ? uint8_t{XFRM_MODE_TUNNEL} : wanted.mode;
    use.family = AF_INET;
    ::inet_pton(AF_INET, wanted.tunnel_from, &use.saddr);
    ::inet_pton(AF_INET, wanted.tunnel_to, &use.id.daddr);
    use.optional = wanted.optional ? 1 : 0;
    append_bytes(templates, &use, sizeof use, sizeof use);
  }
  append_attribute(body, XFRMA_TMPL, templates);
  if (wanted.mark.m != 0) append_attribute(body, XFRMA_MARK, wanted.mark);
  if (wanted.if_id != 0) append_attribute(body, XFRMA_IF_ID, wanted.if_id);
  if (wanted.label) append_attribute(body, XFRMA_SEC_CTX, uint64_t{8});
  append_offload(body, wanted.offload);
  return message(XFRM_MSG_NEWPOLICY, body);
}

EncryptedPaths all_paths(std::initializer_list<Policy> wanted, const char* interface = "lo") {
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

// Those that are encrypted for sure, where none is in doubt.
std::vector<std::string> paths(std::initializer_list<Policy> wanted, const char* interface = "lo") {
  EncryptedPaths found = all_paths(wanted, interface);
  EXPECT_EQ(found.in_doubt, std::vector<std::string>());
  return found.all;
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

TEST(LinkEncryption, ATunnelToAGatewayIsNoEncryptedPathToThePeer) {
  const Policy out{.mode = XFRM_MODE_TUNNEL, .tunnel_from = "10.0.0.1", .tunnel_to = "10.0.0.2"};
  Policy in = way_back();
  in.mode = XFRM_MODE_TUNNEL;
  in.tunnel_from = "10.0.0.2";
  in.tunnel_to = "10.0.0.1";
  EXPECT_EQ(paths({out, in}), std::vector<std::string>{"10.0.0.1/32 to 10.0.0.2/32"}) << "it ends at the peer";
  const EncryptedPaths doubt{.all = {}, .in_doubt = {"10.0.0.1/32 to 10.0.0.2/32"}};
  Policy other = out;
  other.tunnel_to = "192.0.2.2";
  EXPECT_EQ(all_paths({other, in}), doubt) << "a gateway near the peer";
  other = out;
  other.tunnel_from = "192.0.2.1";
  EXPECT_EQ(all_paths({other, in}), doubt) << "a gateway near this host";
  other = in;
  other.tunnel_from = "192.0.2.2";
  EXPECT_EQ(all_paths({out, other}), doubt) << "one on the way back";
  other = out;
  other.mode = XFRM_MODE_BEET;
  EXPECT_EQ(all_paths({other, in}), doubt) << "packets have other addresses there";
  Policy networks = out, networks_in = in;
  networks.bits = networks_in.bits = 16;
  EXPECT_EQ(all_paths({networks, networks_in}).all, std::vector<std::string>()) << "networks behind the ends";
  EXPECT_EQ(all_paths({networks, networks_in}).in_doubt.size(), 1u);
}

TEST(LinkEncryption, APolicyForSomePacketsAloneLeavesAPathInDoubt) {
  const EncryptedPaths doubt{.all = {}, .in_doubt = {"10.0.0.1/32 to 10.0.0.2/32"}};
  EXPECT_EQ(all_paths({{.mark = {.v = 0, .m = 1}}, way_back()}), doubt);
  EXPECT_EQ(all_paths({{.if_id = 7}, way_back()}), doubt);
  EXPECT_EQ(all_paths({{.user = 1000}, way_back()}), doubt);
  EXPECT_EQ(all_paths({{.ifindex = 1}, way_back()}), doubt);
  EXPECT_EQ(all_paths({{.label = true}, way_back()}), doubt);
  Policy marked_back = way_back();
  marked_back.mark = {.v = 1, .m = 1};
  EXPECT_EQ(all_paths({Policy(), marked_back}), doubt);
  EXPECT_EQ(all_paths({Policy(), marked_back, way_back()}).all.size(), 1u) << "another policy is for all of them";
  EXPECT_EQ(all_paths({{.proto = IPPROTO_AH, .if_id = 7}, way_back()}), EncryptedPaths()) << "readable without doubt";
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
