// Helpers shared by the files of read batches.
#pragma once

#include <optional>

#include "base/copy.h"
#include "native/wire/batch.h"
#include "s3/objects/read.h"
#include "store/store.h"

namespace verbena::native {

// A checksum of the whole object that a session of this version knows; the one that is cheapest to verify.
inline std::optional<wire::ChecksumView> full_checksum(const store::ObjectInfo& info, unsigned version) {
  const store::Checksum* found = nullptr;
  for (const store::Checksum& sum : info.checksums) {
    if (sum.parts != 0 || !wire::is_known_to(version, sum.algorithm)) continue;
    if (found == nullptr || sum.algorithm == Algorithm::crc32c) found = &sum;
  }
  if (found == nullptr) return std::nullopt;
  return wire::ChecksumView{found->algorithm, 0, found->value};
}

// The bytes of an object in memory, piece by piece. Avoids changing the pieces' reference counts, for which the
// processor would first wait until all copied bytes are written.
template <class Place>
void each_piece(const store::ObjectReader& reader, uint64_t offset, uint64_t length, Place place) {
  for (uint64_t at = 0; at < length;) {
    if (const Bytes bytes = reader.view(offset + at, length - at); !bytes.empty()) {
      if (!place(bytes, at)) return;
      at += bytes.size();
      continue;
    }
    const memory::Chunk piece = reader.peek(offset + at, length - at);
    if (piece.bytes.empty() || !place(piece.bytes, at)) return;
    at += piece.bytes.size();
  }
}
inline void copy_pieces(const store::ObjectReader& reader, uint64_t offset, uint64_t length, std::byte* to) {
  each_piece(reader, offset, length, [&](Bytes bytes, uint64_t at) {
    copy_bytes(to + at, bytes);
    return true;
  });
}
inline void copy_pieces(const s3::OpenObject& object, std::byte* to) {
  copy_pieces(*object.reader, object.offset, object.length, to);
}

}  // namespace verbena::native
