// A transfer outside a connection: what is sealed in any pieces opens, and nothing else does.
#include "fabric/sealed/transfer.h"

#include <gtest/gtest.h>

namespace verbena::fabric::sealed {
namespace {

constexpr WindowDescriptor window{.base = 0x1000, .size = 1 * MiB, .key = 7};

ConnectionKey fresh_key(Sealing sealing = Sealing::aes_256_gcm) {
  ConnectionKey key;
  fill_random(key.bytes);
  key.sealing = sealing;
  return key;
}

std::vector<std::byte> random_bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  fill_random(bytes);
  return bytes;
}

// Sealed in place, `step` bytes at a time; the tags follow.
std::vector<std::byte> sealed_by(Transfer& transfer, std::vector<std::byte> bytes, size_t step) {
  std::vector<std::byte> tags(trailer_size(bytes.size()));
  transfer.keep_tags_in(tags);
  for (size_t at = 0; at < bytes.size(); at += step) {
    const size_t n = std::min(step, bytes.size() - at);
    transfer.seal(Bytes(bytes).subspan(at, n), bytes.data() + at);
  }
  bytes.insert(bytes.end(), tags.begin(), tags.end());
  return bytes;
}

// The plain bytes; nullopt: a record cannot be opened.
std::optional<std::vector<std::byte>> opened_by(Transfer& transfer, std::vector<std::byte> bytes) {
  transfer.keep_tags_in(MutableBytes(bytes).subspan(transfer.length()));
  for (size_t i = 0; i < transfer.records(); ++i) {
    const MutableBytes record = MutableBytes(bytes).subspan(i * record_size_max, transfer.size_of(i));
    if (!transfer.open(i, record, record.data())) return std::nullopt;
  }
  bytes.resize(transfer.length());
  return bytes;
}

TEST(SealedTransfer, PiecesMakeTheSameRecordsWhereverTheyEnd) {
  const Salt salt{std::byte{1}};
  for (const Sealing sealing : {Sealing::aes_256_gcm, Sealing::chacha20_poly1305}) {
    const ConnectionKey key = fresh_key(sealing);
    for (const size_t size : {1u, 65'535u, 65'536u, 65'537u, 300'000u}) {
      const auto plain = random_bytes(size);
      std::optional<std::vector<std::byte>> first;
      for (const size_t step : {size, size_t{65'536}, size_t{50'001}, size_t{4096}}) {
        Transfer sends(key, salt, Direction::to_client, window, size);
        const auto sealed = sealed_by(sends, plain, step);
        EXPECT_EQ(sealed.size(), size + trailer_size(size));
        EXPECT_EQ(sends.sealed(), size);
        if (!first) first = sealed;
        EXPECT_TRUE(sealed == *first) << size << " by " << step;
      }
      Transfer opens(key, salt, Direction::to_client, window, size);
      EXPECT_EQ(opened_by(opens, *first), plain);
    }
  }
}

TEST(SealedTransfer, BelongsToItsKeySaltDirectionWindowAndLength) {
  const ConnectionKey key = fresh_key();
  const Salt salt{};
  const size_t size = 100'000;
  const auto plain = random_bytes(size);
  Transfer sends(key, salt, Direction::to_server, window, size);
  const auto sealed = sealed_by(sends, plain, size);
  const auto opens = [&](Transfer transfer, std::vector<std::byte> bytes) {
    return opened_by(transfer, std::move(bytes)).has_value();
  };
  using enum Direction;
  EXPECT_TRUE(opens(Transfer(key, salt, to_server, window, size), sealed));
  EXPECT_FALSE(opens(Transfer(fresh_key(), salt, to_server, window, size), sealed));
  EXPECT_FALSE(opens(Transfer(key, Salt{std::byte{1}}, to_server, window, size), sealed));
  EXPECT_FALSE(opens(Transfer(key, salt, to_client, window, size), sealed));
  EXPECT_FALSE(opens(Transfer(key, salt, to_server, {.base = 0x1001, .size = 1 * MiB, .key = 7}, size), sealed));
  EXPECT_FALSE(opens(Transfer(key, salt, to_server, {.base = 0x1000, .size = 1 * MiB, .key = 8}, size), sealed));
  // Cut at the end of a record: the first record is whole, with its own tag.
  auto cut = std::vector(sealed.begin(), sealed.begin() + record_size_max);
  cut.insert(cut.end(), sealed.begin() + size, sealed.begin() + size + aead_tag_size);
  EXPECT_FALSE(opens(Transfer(key, salt, to_server, window, record_size_max), cut));
}

TEST(SealedTransfer, EveryBitAndEveryOrderCounts) {
  const ConnectionKey key = fresh_key();
  const size_t size = 3 * record_size_max;
  Transfer sends(key, {}, Direction::to_client, window, size);
  const auto sealed = sealed_by(sends, random_bytes(size), size);
  for (size_t at = 0; at < sealed.size(); at += 9'973) {
    auto changed = sealed;
    changed[at] ^= std::byte{1} << static_cast<int>(at % 8);
    Transfer opens(key, {}, Direction::to_client, window, size);
    EXPECT_FALSE(opened_by(opens, changed)) << at;
  }
  auto swapped = sealed;
  std::swap_ranges(swapped.begin(), swapped.begin() + record_size_max, swapped.begin() + record_size_max);
  std::swap_ranges(swapped.begin() + size, swapped.begin() + size + aead_tag_size,
                   swapped.begin() + size + aead_tag_size);
  Transfer opens(key, {}, Direction::to_client, window, size);
  EXPECT_FALSE(opened_by(opens, swapped));
}

TEST(SealedTransfer, TagsNeedRoomBehindTheBytes) {
  EXPECT_EQ(trailer_size(0), 0u);
  EXPECT_EQ(trailer_size(1), 16u);
  EXPECT_EQ(trailer_size(record_size_max), 16u);
  EXPECT_EQ(trailer_size(record_size_max + 1), 32u);
  EXPECT_TRUE(fits(100, 116));
  EXPECT_FALSE(fits(100, 115));
  EXPECT_FALSE(fits(transfer_size_max + 1, UINT64_MAX));
  EXPECT_FALSE(fits(UINT64_MAX, UINT64_MAX));
}

}  // namespace
}  // namespace verbena::fabric::sealed
