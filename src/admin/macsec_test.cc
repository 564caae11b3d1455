#include "admin/macsec.h"

#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <array>

#include "admin/test_netlink.h"

namespace verbena::admin {
namespace {

struct Settings {
  std::string kind = "macsec";
  uint8_t encrypt = 1, protect = 1;
  std::optional<uint8_t> offload = uint8_t{0};
};

// An interface as the kernel describes it.
std::vector<std::byte> interface_with(const Settings& settings) {
  std::vector<std::byte> values, described, body;
  append_attribute(values, IFLA_MACSEC_ENCRYPT, settings.encrypt);
  append_attribute(values, IFLA_MACSEC_PROTECT, settings.protect);
  if (settings.offload) append_attribute(values, IFLA_MACSEC_OFFLOAD, *settings.offload);
  const auto* const kind = reinterpret_cast<const std::byte*>(settings.kind.c_str());
  append_attribute(described, IFLA_INFO_KIND, std::vector<std::byte>(kind, kind + settings.kind.size() + 1));
  append_attribute(described, IFLA_INFO_DATA, values);
  const ifinfomsg info{};
  append_bytes(body, &info, sizeof info, NLMSG_ALIGN(sizeof info));
  append_attribute(body, IFLA_MTU, uint32_t{1468});
  append_attribute(body, IFLA_LINKINFO, described);
  return message(RTM_NEWLINK, body, 0);
}

std::string described(const Settings& settings) { return describe(read_macsec_link(interface_with(settings))); }

TEST(MacsecLinks, SayWhetherTheyEncryptAndWhatDoes) {
  EXPECT_EQ(described({}), "encrypts, by the kernel");
  EXPECT_EQ(described({.offload = uint8_t{1}}), "encrypts, by the network device") << "its PHY";
  EXPECT_EQ(described({.offload = uint8_t{2}}), "encrypts, by the network device") << "its MAC";
  EXPECT_EQ(described({.offload = std::nullopt}),
            "encrypts; whether by the kernel or the network device cannot be told");
  EXPECT_EQ(described({.encrypt = 0}), "does not encrypt") << "what `ip link add ... type macsec` makes";
  EXPECT_EQ(described({.protect = 0}), "does not encrypt");
  EXPECT_EQ(described({.kind = "vlan"}), "settings cannot be told");
  EXPECT_EQ(describe(macsec_link("lo")), "settings cannot be told");
  EXPECT_EQ(describe(macsec_link("no-such-device")), "settings cannot be told");
}

TEST(MacsecLinks, DamagedAnswersAreReadWithinTheirBounds) {
  with_damage(interface_with({}), [](Bytes bad) { (void)read_macsec_link(bad); });
}

}  // namespace
}  // namespace verbena::admin
