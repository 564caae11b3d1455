// CRC32C for RocksDB, which computes it over everything in its log. Debian builds RocksDB for the oldest amd64, where
// it uses tables.
//
// RocksDB's function is a symbol of the shared library, which the library itself calls by name: a definition in the
// program takes precedence (ELF's order of resolution). The values are the same either way; a RocksDB with another
// function, or linked statically, uses its own.
#pragma once

namespace verbena::store::local {

// Whether RocksDB uses ours.
bool lends_checksum();

}  // namespace verbena::store::local
