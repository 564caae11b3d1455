#include "store/local/log_scan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace verbena::store::local {
namespace {

constexpr size_t log_block = 32 * KiB;
constexpr size_t header_size = 7;
constexpr size_t sector = 512;

enum PieceType : uint8_t { zero = 0, full = 1, first = 2, middle = 3, last = 4 };

uint8_t byte_at(Bytes bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// RocksDB stores CRCs so that the CRC of bytes with CRCs in them stays useful.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

struct LogPiece {
  PieceType type = zero;
  Bytes bytes;
  const char* wrong = nullptr;  // null: it is whole
  bool torn = false;
  size_t end = 0;  // in the block, if whole
};

// One block of the file, perhaps cut short by its end.
class Block {
 public:
  explicit Block(Bytes bytes) : bytes_(bytes) {}

  bool is_empty_from(size_t at) const { return all_zero(bytes_.subspan(at)); }
  bool ends_at(size_t at) const { return log_block - at < header_size || at == bytes_.size(); }

  LogPiece piece(size_t at) const {
    LogPiece piece;
    if (bytes_.size() - at < header_size) return broken("the file ends in a record's header", true);
    if (all_zero(bytes_.subspan(at, header_size))) return broken("zeros instead of a record", true);
    const size_t length = byte_at(bytes_, at + 4) | static_cast<size_t>(byte_at(bytes_, at + 5)) << 8;
    const size_t end = at + header_size + length;
    if (end > log_block) return broken("a record's length cannot be", lost_sector(at, at + header_size));
    if (end > bytes_.size()) return broken("the file ends in a record", !whole_at_another_length(at));
    if (masked(crc32c(bytes_.subspan(at + 6, 1 + length))) != stored_crc(at)) {
      return broken("a record fails its checksum", lost_sector(at, end) && !whole_at_another_length(at));
    }
    const uint8_t type = byte_at(bytes_, at + 6);
    if (type < full || type > last) return broken("a record of a type that is never written", false);
    piece.type = static_cast<PieceType>(type);
    piece.bytes = bytes_.subspan(at + header_size, length);
    piece.end = end;
    return piece;
  }

  // The first offset from `at` on at which a record begins and all pieces are whole up to the end of the block.
  std::optional<size_t> whole_from(size_t at) const {
    for (; at + header_size <= bytes_.size(); ++at) {
      const uint8_t type = byte_at(bytes_, at + 6);
      if ((type == full || type == first) && all_whole_from(at)) return at;
    }
    return std::nullopt;
  }

 private:
  static LogPiece broken(const char* what, bool torn) {
    LogPiece piece;
    piece.wrong = what;
    piece.torn = torn;
    return piece;
  }
  uint32_t stored_crc(size_t at) const {
    uint32_t crc = 0;
    for (size_t i = 0; i < 4; ++i) crc |= static_cast<uint32_t>(byte_at(bytes_, at + i)) << (8 * i);
    return crc;
  }
  bool all_whole_from(size_t at) const {
    while (!ends_at(at)) {
      const LogPiece next = piece_for_chain(at);
      if (next.wrong != nullptr) return false;
      at = next.end;
    }
    return true;
  }
  // piece() without the reason of damage: called at each byte of a damaged block.
  LogPiece piece_for_chain(size_t at) const {
    LogPiece piece;
    piece.wrong = "";
    if (bytes_.size() - at < header_size) return piece;
    const uint8_t type = byte_at(bytes_, at + 6);
    const size_t length = byte_at(bytes_, at + 4) | static_cast<size_t>(byte_at(bytes_, at + 5)) << 8;
    const size_t end = at + header_size + length;
    if (type < full || type > last || end > bytes_.size()) return piece;
    if (masked(crc32c(bytes_.subspan(at + 6, 1 + length))) != stored_crc(at)) return piece;
    piece.wrong = nullptr;
    piece.end = end;
    return piece;
  }
  // A sector that was not written reads as before: zeros past the old end of the file.
  bool lost_sector(size_t from, size_t to) const {
    while (from < to) {
      const size_t end = std::min(to, (from / sector + 1) * sector);
      if (all_zero(bytes_.subspan(from, end - from))) return true;
      from = end;
    }
    return false;
  }
  // The bytes are intact under another length: the length has changed since it was written.
  bool whole_at_another_length(size_t at) const {
    const uint32_t wanted = stored_crc(at);
    uint32_t crc = crc32c(bytes_.subspan(at + 6, 1));
    for (size_t end = at + header_size; end < bytes_.size(); ++end) {
      crc = crc32c(bytes_.subspan(end, 1), crc);
      if (masked(crc) == wanted) return true;
    }
    return false;
  }

  Bytes bytes_;
};

class Scan {
 public:
  Scan(File& file, const LogVisitor& visit) : file_(file), visit_(visit) {}

  Result<std::optional<LogDamage>> run() {
    VB_ASSIGN(const FileStat stat, file_.stat());
    std::vector<std::byte> memory(log_block);
    for (uint64_t at = 0; at < stat.size; at += log_block) {
      const MutableBytes into(memory.data(), std::min<uint64_t>(log_block, stat.size - at));
      VB_TRY(read_fully(file_, into, at));
      scan(Block(into), at);
    }
    if (in_record_) note(record_at_, "the file ends in a record", true);
    return damage_;
  }

 private:
  void scan(const Block& block, uint64_t block_at) {
    if (zeros_from_ && !block.is_empty_from(0)) {
      note(in_record_ ? record_at_ : *zeros_from_, "zeros instead of a record", true);
      zeros_from_.reset();
    }
    for (size_t at = 0; !block.ends_at(at);) {
      if (block.is_empty_from(at)) {
        if (!zeros_from_) zeros_from_ = block_at + at;
        return;
      }
      const LogPiece piece = block.piece(at);
      if (piece.wrong == nullptr) {
        take(piece, block_at + at);
        at = piece.end;
        continue;
      }
      note(in_record_ ? record_at_ : block_at + at, piece.wrong, piece.torn);
      const auto next = block.whole_from(at + 1);
      if (!next) return;
      at = *next;
    }
  }

  void take(const LogPiece& piece, uint64_t at) {
    if (piece.type == full || piece.type == first) {
      if (in_record_) note(record_at_, "a record without its end", false);
      record_.assign(as_text(piece.bytes));
      record_at_ = at;
      in_record_ = true;
    } else if (in_record_) {
      record_ += as_text(piece.bytes);
    } else {
      // After damage it belongs to the damaged record.
      note(at, "a record without its beginning", false);
    }
    if (!in_record_ || (piece.type != full && piece.type != last)) return;
    in_record_ = false;
    visit_({record_at_, record_}, damage_ ? &*damage_ : nullptr);
  }

  void note(uint64_t offset, const char* what, bool torn) {
    in_record_ = false;
    if (!damage_) damage_ = LogDamage{offset, what, torn};
  }

  File& file_;
  const LogVisitor& visit_;
  std::string record_;
  uint64_t record_at_ = 0;
  bool in_record_ = false;
  std::optional<uint64_t> zeros_from_;  // all that was read from there on
  std::optional<LogDamage> damage_;
};

}  // namespace

Result<std::optional<LogDamage>> scan_log(File& file, const LogVisitor& visit) { return Scan(file, visit).run(); }

}  // namespace verbena::store::local
