#include "store/rados/bytes/stripe_blocks.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

std::string checksums_of(std::string_view bytes) {
  std::string checksums;
  for (size_t at = 0; at < bytes.size(); at += block_size) {
    keys::append_number(checksums, crc32c(as_bytes(bytes.substr(at, block_size))), 4);
  }
  return checksums;
}

// What a read of [at, at + size) of a stripe of these bytes gives.
struct Got {
  Result<void> done;
  std::string bytes;
};
Got read(std::string_view stripe, std::string_view checksums, uint64_t at, size_t size, size_t cut = 0) {
  const BlockRange range = BlockRange::of(at, size, stripe.size());
  std::string into(size, '?');
  const StripePart part{at, MutableBytes(reinterpret_cast<std::byte*>(into.data()), size)};
  const auto wanted = stripe.substr(range.first, range.last - range.first - cut);
  auto done = copy_checked(to_buffer(wanted), checksums, stripe.size(), range, std::span(&part, 1));
  return {done, into};
}

TEST(StripeFill, ABlockIsCheckedHoweverItsBytesCome) {
  const std::string bytes = pattern(5 * block_size + 17);
  for (const size_t step : {size_t{1000}, size_t{block_size}, size_t{block_size + 1}, bytes.size()}) {
    StripeFill fill;
    for (size_t at = 0; at < bytes.size(); at += step) fill.add(as_bytes(std::string_view(bytes).substr(at, step)));
    EXPECT_EQ(fill.size(), bytes.size());
    auto stripe = fill.take();
    EXPECT_EQ(to_text(stripe.bytes), bytes);
    EXPECT_EQ(stripe.checksums, checksums_of(bytes));
  }
}

TEST(StripeFill, OneStripeAfterTheOther) {
  StripeFill fill;
  fill.add(as_bytes(pattern(stripe_size)));
  auto first = fill.take();
  EXPECT_EQ(first.bytes.length(), stripe_size);
  EXPECT_EQ(first.checksums.size(), stripe_size / block_size * 4);
  EXPECT_EQ(fill.size(), 0u);
  fill.add(as_bytes("x"));
  auto second = fill.take();
  EXPECT_EQ(to_text(second.bytes), "x");
  EXPECT_EQ(second.checksums, checksums_of("x"));
}

TEST(BlockRange, IsOfWholeBlocksAndEndsWithTheStripe) {
  const auto range = BlockRange::of(block_size + 1, 1, 3 * block_size + 5);
  EXPECT_EQ(range.first, block_size);
  EXPECT_EQ(range.last, 2 * block_size);
  EXPECT_EQ(BlockRange::of(3 * block_size, 5, 3 * block_size + 5).last, 3 * block_size + 5);
  EXPECT_EQ(BlockRange::of(0, 1, 1).last, 1u);
}

TEST(CopyChecked, GivesAnyRange) {
  for (const size_t size : {size_t{1}, size_t{block_size}, size_t{3 * block_size + 5}, size_t{stripe_size}}) {
    const std::string stripe = pattern(size), checksums = checksums_of(stripe);
    for (const auto& [at, n] : {std::pair<size_t, size_t>(0, size), {0, 1}, {size - 1, 1}, {size / 3, size / 2 + 1}}) {
      const size_t length = std::min(n, size - at);
      const Got got = read(stripe, checksums, at, length);
      ASSERT_TRUE(got.done);
      EXPECT_EQ(got.bytes, stripe.substr(at, length));
    }
  }
}

TEST(CopyChecked, SeveralPartsOfOneCallThatOverlapToo) {
  const std::string stripe = pattern(4 * block_size);
  std::string a(block_size, '?'), b(2 * block_size + 9, '?'), c(10, '?');
  const auto part = [](uint64_t at, std::string& into) {
    return StripePart{at, MutableBytes(reinterpret_cast<std::byte*>(into.data()), into.size())};
  };
  const StripePart parts[] = {part(0, a), part(block_size - 5, b), part(block_size + 70, c)};
  const BlockRange range{0, 4 * block_size};
  ASSERT_TRUE(copy_checked(to_buffer(stripe), checksums_of(stripe), stripe.size(), range, parts));
  EXPECT_EQ(a, stripe.substr(0, a.size()));
  EXPECT_EQ(b, stripe.substr(block_size - 5, b.size()));
  EXPECT_EQ(c, stripe.substr(block_size + 70, c.size()));
}

TEST(CopyChecked, ADamagedByteInTheMiddleOfAStripeIsFound) {
  const std::string good = pattern(5 * block_size + 3);
  for (const size_t damaged : {size_t{0}, size_t{2 * block_size + 100}, good.size() - 1}) {
    std::string stripe = good;
    stripe[damaged] ^= 1;
    EXPECT_EQ(read(stripe, checksums_of(good), 0, good.size()).done.error(), Errc::corrupt_object);
    // In a block of which another byte is wanted.
    const size_t beside = damaged == 0 ? 1 : damaged - 1;
    EXPECT_EQ(read(stripe, checksums_of(good), beside, 1).done.error(), Errc::corrupt_object);
    // In none that is wanted.
    const size_t elsewhere = damaged < block_size ? 4 * block_size : 1;
    EXPECT_TRUE(read(stripe, checksums_of(good), elsewhere, 1).done);
  }
}

TEST(CopyChecked, AStripeOrItsChecksumsThatEndEarlyAreDamage) {
  const std::string stripe = pattern(2 * block_size + 3), checksums = checksums_of(stripe);
  EXPECT_EQ(read(stripe, checksums, 0, stripe.size(), 1).done.error(), Errc::corrupt_object);
  EXPECT_EQ(read(stripe, checksums, 0, stripe.size(), stripe.size()).done.error(), Errc::corrupt_object);
  EXPECT_EQ(read(stripe, "", 0, 1).done.error(), Errc::corrupt_object);
  EXPECT_EQ(read(stripe, checksums.substr(4), 0, 1).done.error(), Errc::corrupt_object);
  EXPECT_EQ(read(stripe, checksums + "abcd", 0, 1).done.error(), Errc::corrupt_object);
}

}  // namespace
}  // namespace verbena::store::rados
