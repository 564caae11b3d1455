#include "native/wire/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "native/wire/bodies.h"

namespace verbena::native::wire {
namespace {

MacKey key_of(uint8_t fill) {
  MacKey key;
  for (auto& b : key.bytes) b = static_cast<std::byte>(fill);
  return key;
}

std::vector<std::byte> message_with(const MacKey& key, size_t body_size) {
  std::vector<std::byte> message(frame_size + body_size);
  for (size_t i = 0; i < body_size; ++i) message[header_size + i] = static_cast<std::byte>(i * 7);
  const Header header{.type = static_cast<uint8_t>(Type::put),
                      .flags = flag_window,
                      .session = 0x1122334455667788,
                      .sequence = 42,
                      .request = 0xaabbccdd00000007,
                      .body_length = static_cast<uint32_t>(body_size),
                      .timeout_ms = 1500};
  EXPECT_EQ(seal(key, header, message), message.size());
  return message;
}

TEST(Message, ASealedMessageComesBackAsItWas) {
  const auto message = message_with(key_of(1), 100);
  const auto header = parse_header(message, 4096);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->type, static_cast<uint8_t>(Type::put));
  EXPECT_EQ(header->flags, flag_window);
  EXPECT_EQ(header->session, 0x1122334455667788u);
  EXPECT_EQ(header->sequence, 42u);
  EXPECT_EQ(header->request, 0xaabbccdd00000007u);
  EXPECT_EQ(header->body_length, 100u);
  EXPECT_EQ(header->timeout_ms, 1500u);
  EXPECT_EQ(body_of(message).size(), 100u);
  EXPECT_TRUE(mac_matches(key_of(1), message));
  EXPECT_FALSE(mac_matches(key_of(2), message));
}

TEST(Message, TheLayoutIsTheDocumentedOne) {
  const auto message = message_with(key_of(1), 0);
  ASSERT_EQ(message.size(), 48u);
  EXPECT_EQ(to_hex(Bytes(message).first(40)),
            "564e4201"
            "12"
            "01"
            "0000"
            "8877665544332211"
            "2a00000000000000"
            "07000000ddccbbaa"
            "00000000"
            "dc050000");
}

TEST(Message, EveryFlippedBitBreaksTheMacOrTheHeader) {
  auto message = message_with(key_of(1), 20);
  for (size_t bit = 0; bit < message.size() * 8; ++bit) {
    message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(parse_header(message, 4096) && mac_matches(key_of(1), message)) << bit;
    message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

TEST(Message, ATruncatedMessageIsRefusedAtEveryLength) {
  const auto message = message_with(key_of(1), 20);
  for (size_t size = 0; size < message.size(); ++size) {
    const auto header = parse_header(Bytes(message).first(size), 4096);
    ASSERT_FALSE(header) << size;
    EXPECT_EQ(header.error(), size < frame_size ? Drop::truncated : Drop::bad_length);
  }
}

TEST(Message, AnOversizedMessageIsRefusedBeforeItIsReadAsOne) {
  const auto message = message_with(key_of(1), 5000);
  const auto header = parse_header(message, 4096);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error(), Drop::oversized);
}

TEST(ReplayWindow, AcceptsEachNumberOnce) {
  ReplayWindow window;
  EXPECT_FALSE(window.accept(0));
  for (uint64_t n = 1; n < 5000; ++n) {
    EXPECT_TRUE(window.accept(n));
    EXPECT_FALSE(window.accept(n));
  }
}

TEST(ReplayWindow, AcceptsAnyOrderInsideTheWindow) {
  std::vector<uint64_t> numbers;
  for (uint64_t n = 1; n <= 20 * ReplayWindow::width; ++n) numbers.push_back(n);
  std::mt19937 random(7);
  for (size_t at = 0; at < numbers.size(); at += ReplayWindow::width / 2) {
    std::shuffle(numbers.begin() + at, numbers.begin() + std::min(numbers.size(), at + ReplayWindow::width / 2),
                 random);
  }
  ReplayWindow window;
  for (uint64_t n : numbers) EXPECT_TRUE(window.accept(n)) << n;
  for (uint64_t n : numbers) EXPECT_FALSE(window.accept(n)) << n;
}

TEST(ReplayWindow, RefusesWhatIsOlderThanTheWindow) {
  ReplayWindow window;
  EXPECT_TRUE(window.accept(1'000'000));
  EXPECT_TRUE(window.accept(1'000'000 - ReplayWindow::width + 1));
  EXPECT_FALSE(window.accept(1'000'000 - ReplayWindow::width));
  EXPECT_TRUE(window.accept(~uint64_t{0}));  // a jump clears everything
  EXPECT_FALSE(window.accept(1'000'001));
}

}  // namespace
}  // namespace verbena::native::wire
