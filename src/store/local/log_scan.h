// Reads files of RocksDB's log format (write-ahead logs, manifests) without RocksDB: which records are whole, where
// damage begins, and what follows it. RocksDB stops at a flipped bit as it stops at an end that a power loss tore off;
// which of the two it is decides whether acknowledged changes are lost.
//
// The format: blocks of 32 KiB; in them pieces of CRC32C (masked, over type and bytes), length, type, bytes; a record
// is one piece, or a first, middle ones and a last. A piece never crosses a block, and fewer than 7 bytes at a block's
// end stay empty.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "store/local/file_system.h"

namespace verbena::store::local {

struct LogRecord {
  uint64_t offset = 0;  // of its first piece, in the file
  std::string_view bytes;
};

struct LogDamage {
  uint64_t offset = 0;  // of the damaged record
  const char* what = "";
  // True if the bytes seem never to have reached the disk: the file ends in the record, or a whole sector of it is
  // zeros. If not, the record was written whole and has changed since.
  bool torn = false;
};

// Called with each whole record; `before`: the file's first damage, if that precedes it. After damage reading resumes
// at a piece from which only whole pieces follow up to the end of the block or of the file.
using LogVisitor = std::function<void(const LogRecord& record, const LogDamage* before)>;

// The first damage of the file, if there is any. Errors are those of reading.
Result<std::optional<LogDamage>> scan_log(File& file, const LogVisitor& visit);

}  // namespace verbena::store::local
