#include "fabric/local/control.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

Bytes bytes_of(const ControlMessage& message) { return std::as_bytes(std::span(&message, 1)); }

TEST(Control, AMessageIsParsedWhole) {
  const ControlMessage sent{.type = ControlType::share, .request = 3, .a = 4096};
  auto message = parse_control(bytes_of(sent), 1);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->request, 3u);
  EXPECT_EQ(message->a, 4096u);
}

TEST(Control, AnotherSizeMagicTypeOrNumberOfDescriptorsIsMalformed) {
  ControlMessage hello{.type = ControlType::hello};
  EXPECT_EQ(parse_control(bytes_of(hello).first(39), 0).error(), Errc::malformed);
  EXPECT_EQ(parse_control({}, 0).error(), Errc::malformed);
  EXPECT_EQ(parse_control(bytes_of(hello), 1).error(), Errc::malformed);
  hello.type = static_cast<ControlType>(0);
  EXPECT_EQ(parse_control(bytes_of(hello), 0).error(), Errc::malformed);
  hello.type = static_cast<ControlType>(99);
  EXPECT_EQ(parse_control(bytes_of(hello), 0).error(), Errc::malformed);
  hello = {.type = ControlType::hello};
  hello.magic ^= 1;
  EXPECT_EQ(parse_control(bytes_of(hello), 0).error(), Errc::malformed);
  EXPECT_EQ(parse_control(bytes_of({.type = ControlType::share}), 0).error(), Errc::malformed);
}

TEST(Control, AsManyDescriptorsAreHandedOverAsTheMessageSays) {
  const auto parsed = [](uint64_t said, size_t descriptors) {
    return parse_control(bytes_of({.type = ControlType::hand_over, .a = said}), descriptors).has_value();
  };
  EXPECT_TRUE(parsed(1, 1));
  EXPECT_TRUE(parsed(handed_over_max, handed_over_max));
  EXPECT_FALSE(parsed(0, 0));
  EXPECT_FALSE(parsed(2, 1));
  EXPECT_FALSE(parsed(1, 2));
  EXPECT_FALSE(parsed(handed_over_max + 1, handed_over_max + 1));
}

TEST(Control, AnotherVersionIsToldApart) {
  const ControlMessage hello{.version = 2, .type = ControlType::hello};
  EXPECT_EQ(parse_control(bytes_of(hello), 0).error(), Errc::unsupported);
}

TEST(Control, DescriptorsTravelAndTheEndOfTheConnectionIsSeen) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Fd a(ends[0]), b(ends[1]);
  EXPECT_EQ(receive_packet(b.get()).error(), Errc::would_block);
  Fd memfd = testing::shared_memfd(4096, 0);
  const int fds[] = {memfd.get(), memfd.get()};
  ASSERT_TRUE(send_control(a.get(), {.type = ControlType::welcome, .a = 1}, fds));
  auto packet = receive_packet(b.get());
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->descriptors.size(), 2u);
  EXPECT_TRUE(parse_control(packet->bytes, 2));
  a = Fd();
  Fd closed(std::exchange(a, Fd()));
  closed = Fd();
  EXPECT_EQ(receive_packet(b.get()).error(), Errc::closed);
  EXPECT_EQ(send_control(b.get(), {.type = ControlType::wake}).error(), Errc::closed);
}

TEST(Control, ASocketThatNobodyReadsBlocksNobody) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Fd a(ends[0]), b(ends[1]);
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = send_control(a.get(), {.type = ControlType::wake});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error(), Errc::would_block);
}

}  // namespace
}  // namespace verbena::fabric::local
