// CRC32C for RocksDB, which computes it over all that goes to its log. Debian builds RocksDB for the oldest amd64, and
// there it does so by tables.
//
// Its function is a symbol of the shared library, which the library itself calls by name: what the program defines
// comes first (ELF's order of resolution). The values are the same either way; a RocksDB that has another function, or
// is linked into the program, goes on with its own.
#pragma once

namespace verbena::store::local {

// Whether RocksDB uses ours.
bool lends_checksum();

}  // namespace verbena::store::local
