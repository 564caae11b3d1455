#include "store/rados/bytes/stripe_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

constexpr unsigned block_alignment = 4096;

uint64_t blocks_of(uint64_t bytes) { return (bytes + block_size - 1) / block_size; }

// The range of the block that the part needs; whole blocks are checked after their copy, at the destination.
bool covers(const StripePart& part, uint64_t block, size_t size) {
  return part.at <= block && block + size <= part.at + part.into.size();
}

void copy_some(Bytes block, uint64_t at, const StripePart& part) {
  const uint64_t from = std::max(at, part.at);
  const uint64_t to = std::min(at + block.size(), part.at + part.into.size());
  if (from < to) std::memcpy(part.into.data() + (from - part.at), block.data() + (from - at), to - from);
}

Bytes copy_block(Bytes block, uint64_t at, std::span<const StripePart> parts) {
  Bytes copied = block;
  for (const StripePart& part : parts) {
    copy_some(block, at, part);
    if (covers(part, at, block.size())) copied = Bytes(part.into).subspan(at - part.at, block.size());
  }
  return copied;
}

}  // namespace

void StripeFill::add(Bytes bytes) {
  while (!bytes.empty()) {
    if (filled_ == 0) block_ = ceph::buffer::create_aligned(block_size, block_alignment);
    const size_t n = std::min<size_t>(bytes.size(), block_size - filled_);
    std::memcpy(block_.c_str() + filled_, bytes.data(), n);
    filled_ += n;
    bytes = bytes.subspan(n);
    if (filled_ == block_size) end_block();
  }
}

// Computed by librados's function, which caches the result with the buffer: the messenger reuses it for its own
// checksum.
void StripeFill::end_block() {
  block_.set_length(static_cast<unsigned>(filled_));
  Buffer block;
  block.push_back(std::move(block_));
  keys::append_number(checksums_, ~block.crc32c(~0U), 4);
  bytes_.claim_append(block);
  block_ = {};
  filled_ = 0;
}

StripeFill::Stripe StripeFill::take() {
  if (filled_ != 0) end_block();
  return {std::exchange(bytes_, {}), std::exchange(checksums_, {})};
}

BlockRange BlockRange::of(uint64_t at, uint64_t size, uint64_t stripe_bytes) {
  return {at / block_size * block_size, std::min(stripe_bytes, blocks_of(at + size) * block_size)};
}

Result<void> copy_checked(Buffer bytes, std::string_view checksums, uint64_t stripe_bytes, BlockRange range,
                          std::span<const StripePart> parts) {
  if (bytes.length() != range.last - range.first || checksums.size() != blocks_of(stripe_bytes) * 4) {
    return fail(Errc::corrupt_object, "a stripe ends early");
  }
  const auto* from = reinterpret_cast<const std::byte*>(bytes.c_str());  // received in one piece
  for (uint64_t at = range.first; at < range.last; at += block_size) {
    const Bytes block(from + (at - range.first), std::min(block_size, range.last - at));
    const Bytes copied = copy_block(block, at, parts);
    if (crc32c(copied) != keys::read_number(checksums.substr(at / block_size * 4, 4))) {
      return fail(Errc::corrupt_object, "checksum of a block");
    }
  }
  return {};
}

}  // namespace verbena::store::rados
