// Reads files of RocksDB's log format (write-ahead logs, manifests) without RocksDB: which records are whole, where
// damage begins, and what lies behind it. RocksDB stops at a flipped bit as it stops at an end that a power loss tore
// off; which of the two it is decides whether acknowledged changes are lost.
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
  uint64_t offset = 0;  // of the record that is not whole
  const char* what = "";
  // It looks as if bytes had never reached the disk: the file ends in the record, or a whole sector of it is zeros. If
  // not, the record was written whole and has changed since.
  bool torn = false;
};

// Told of each whole record; `before`: the file's first damage, when that lies before it. Behind damage all begins
// again at a piece from which nothing but whole pieces reach to the end of the block or of the file.
using LogVisitor = std::function<void(const LogRecord& record, const LogDamage* before)>;

// The first damage of the file, if there is any. Errors are those of reading.
Result<std::optional<LogDamage>> scan_log(File& file, const LogVisitor& visit);

}  // namespace verbena::store::local
