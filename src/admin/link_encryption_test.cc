#include "admin/link_encryption.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>

#include <cstring>
#include <random>

namespace verbena::admin {
namespace {

void append_bytes(std::vector<std::byte>& to, const void* from, size_t size, size_t padded) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  to.insert(to.end(), bytes, bytes + size);
  to.resize(to.size() + padded - size);
}

// A message with one association; `flags`: of its offload to lo, none without.
std::vector<std::byte> association(uint32_t spi, std::optional<uint8_t> flags) {
  std::vector<std::byte> body;
  xfrm_usersa_info info{};
  info.id.spi = htonl(spi);
  append_bytes(body, &info, sizeof info, NLMSG_ALIGN(sizeof info));
  const nlattr other{.nla_len = NLA_HDRLEN + 1, .nla_type = XFRMA_SRCADDR};
  append_bytes(body, &other, sizeof other, NLA_HDRLEN + 4);
  if (flags) {
    const nlattr head{.nla_len = NLA_HDRLEN + sizeof(xfrm_user_offload), .nla_type = XFRMA_OFFLOAD_DEV};
    xfrm_user_offload offload{};
    offload.ifindex = 1;
    offload.flags = *flags;
    append_bytes(body, &head, sizeof head, NLA_HDRLEN);
    append_bytes(body, &offload, sizeof offload, NLA_ALIGN(sizeof offload));
  }
  std::vector<std::byte> out;
  const nlmsghdr head{.nlmsg_len = static_cast<uint32_t>(NLMSG_HDRLEN + body.size()),
                      .nlmsg_type = XFRM_MSG_NEWSA,
                      .nlmsg_flags = NLM_F_MULTI,
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
  append_bytes(out, &head, sizeof head, NLMSG_HDRLEN);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

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
  EXPECT_TRUE(read_associations(messages, found));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].identifier, 7u);
  EXPECT_EQ(found[0].device, "");
  EXPECT_EQ(found[1].device, "lo");
  EXPECT_TRUE(found[1].packet);
  EXPECT_FALSE(found[2].packet) << "crypto offload: RDMA packets do not pass it";
}

TEST(LinkEncryption, MessagesThatLieAboutTheirLengthEndTheReading) {
  const auto good = association(9, 4);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    auto bad = good;
    bad.resize(random() % (bad.size() + 1));
    for (int n = 0; n < 3 && !bad.empty(); ++n) bad[random() % bad.size()] = static_cast<std::byte>(random());
    std::vector<IpsecAssociation> found;
    (void)read_associations(bad, found);
    EXPECT_LE(found.size(), 1u);
  }
}

}  // namespace
}  // namespace verbena::admin
