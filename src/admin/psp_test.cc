#include "admin/psp.h"

#include <gtest/gtest.h>
#include <linux/genetlink.h>

#include <limits>

#include "admin/test_netlink.h"

namespace verbena::admin {
namespace {

constexpr uint16_t psp_family = 0x21;
constexpr uint32_t loopback = 1;  // its index in every network namespace

std::vector<std::byte> psp_device(uint32_t interface, std::optional<uint32_t> enabled) {
  std::vector<std::byte> body;
  const genlmsghdr head{.cmd = 1, .version = 1, .reserved = 0};
  append_bytes(body, &head, sizeof head, NLMSG_ALIGN(sizeof head));
  append_attribute(body, 1, uint32_t{7});  // the device's number
  append_attribute(body, 2, interface);
  append_attribute(body, 3, uint32_t{3});  // the versions that it has
  if (enabled) append_attribute(body, 4, *enabled);
  return message(psp_family, body);
}

TEST(PspOfTheKernel, DevicesAreReadWithWhetherTheyAreOn) {
  auto messages = psp_device(loopback, 0);
  const auto more = psp_device(std::numeric_limits<int>::max(), 1);
  messages.insert(messages.end(), more.begin(), more.end());
  std::vector<PspDevice> found;
  EXPECT_EQ(read_psp_devices(messages, psp_family, found), Dump::goes_on);
  EXPECT_EQ(found, (std::vector<PspDevice>{{"lo", false}, {"device 2147483647", true}}));
  found.clear();
  EXPECT_EQ(read_psp_devices(psp_device(loopback, std::nullopt), psp_family, found), Dump::unreadable);
  EXPECT_TRUE(found.empty());
}

TEST(PspOfTheKernel, IsPresentAbsentOrNotToBeTold) {
  EXPECT_EQ(describe(Psp{}), "cannot be told");
  EXPECT_EQ(describe(Psp{.in_kernel = false, .devices = {}}), "absent from this kernel");
  EXPECT_EQ(describe(Psp{.in_kernel = true, .devices = {}}), "the kernel has it; which devices have it cannot be told");
  EXPECT_EQ(describe(Psp{.in_kernel = true, .devices = std::vector<PspDevice>()}),
            "absent: the kernel has it, but no network device");
  EXPECT_EQ(describe(Psp{.in_kernel = true, .devices = std::vector<PspDevice>{{"eth0", true}, {"eth1", false}}}),
            "present: eth0 (on), eth1 (off)");
}

TEST(PspOfTheKernel, DamagedAnswersAddNothingMore) {
  with_damage(psp_device(loopback, 1), [](Bytes bad) {
    std::vector<PspDevice> found;
    (void)read_psp_devices(bad, psp_family, found);
    EXPECT_LE(found.size(), 1u);
  });
}

}  // namespace
}  // namespace verbena::admin
