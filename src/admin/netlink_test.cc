#include "admin/netlink.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "admin/test_netlink.h"

namespace verbena::admin {
namespace {

constexpr uint16_t some_type = 0x20;

std::vector<std::byte> numbered(uint32_t number, uint16_t flags = NLM_F_MULTI) {
  std::vector<std::byte> body;
  append_bytes(body, &number, sizeof number, sizeof number);
  return message(some_type, body, flags);
}

// What a dump of these messages is, and the numbers that were read.
Dump read_numbers(std::initializer_list<std::vector<std::byte>> messages, std::vector<uint32_t>& into) {
  std::vector<std::byte> all;
  for (const auto& one : messages) all.insert(all.end(), one.begin(), one.end());
  return each_message<uint32_t>(all, some_type, [&](uint32_t number, Bytes) {
    into.push_back(number);
    return true;
  });
}

TEST(Netlink, ADumpGoesOnUntilItsLastMessage) {
  std::vector<uint32_t> found;
  EXPECT_EQ(read_numbers({numbered(1), numbered(2)}, found), Dump::goes_on);
  EXPECT_EQ(read_numbers({numbered(3), end_of_dump()}, found), Dump::done);
  EXPECT_EQ(found, (std::vector<uint32_t>{1, 2, 3}));
}

TEST(Netlink, ADumpThatIsNotWholeIsNotTakenForWhole) {
  std::vector<uint32_t> found;
  EXPECT_EQ(read_numbers({numbered(1), end_of_dump(-ENOMEM)}, found), Dump::unreadable) << "it broke off";
  EXPECT_EQ(read_numbers({numbered(1), message(NLMSG_DONE, {})}, found), Dump::unreadable) << "it does not say";
  EXPECT_EQ(read_numbers({numbered(1, NLM_F_MULTI | NLM_F_DUMP_INTR)}, found), Dump::unreadable) << "changed meanwhile";
  EXPECT_EQ(read_numbers({message(NLMSG_ERROR, {})}, found), Dump::unreadable);
  EXPECT_EQ(read_numbers({message(some_type, {})}, found), Dump::unreadable) << "too short for what it is";
  auto lying = numbered(1);
  lying[0] = std::byte{0xff};
  EXPECT_EQ(read_numbers({lying}, found), Dump::unreadable);
}

TEST(Netlink, TheKernelSaysWhichFamiliesItHas) {
  const auto control = netlink_family("nlctrl");  // the family that answers such questions
  if (!control) GTEST_SKIP() << "netlink is forbidden here";
  EXPECT_EQ(*control, 0x10);
  EXPECT_EQ(netlink_family("no-such-family"), 0);
}

}  // namespace
}  // namespace verbena::admin
