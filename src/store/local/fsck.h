// Reports what a store has lost, and changes nothing: every object's bytes against their checksums, every index record
// against the others. For a store that no server has open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/local/file_system.h"

namespace verbena::store::local {

struct FsckOptions {
  std::filesystem::path directory;
  FileSystem* fs = nullptr;           // null: the machine's
  bool read_data = true;              // false: the index alone
  std::filesystem::path device = {};  // that has the volumes; empty: they are files
  std::string* trouble = nullptr;     // receives a sentence about the device
};

struct FsckReport {
  struct Loss {
    std::string name;  // "bucket/key", "bucket/key version ID", "bucket/key upload ID part N"
    std::string why;
  };
  static constexpr size_t names_max = 10'000;  // of each list; the numbers count all

  std::vector<std::string> index;  // defects of the index and of files that it needs; sentences
  std::vector<Loss> lost;          // objects and parts that cannot be read whole
  uint64_t lost_count = 0;
  // Changes in the log behind its damage. A start with accept_data_loss keeps them; the damaged ones are lost.
  uint64_t changes_behind_damage = 0;
  bool torn_end = false;  // the log ends in changes that were never acknowledged as durable: no loss

  // Of a device: copies of its superblock or table that are damaged while the other one is whole, which the next start
  // writes again. Sentences; no loss.
  std::vector<std::string> device;
  // Likewise, but a server refuses to start: bytes of other programs. Sentences.
  std::vector<std::string> refusals;

  bool has_pmem_log = false;  // objects may be in the log on persistent memory, too, which was not read

  uint64_t buckets = 0, objects = 0, old_versions = 0, parts = 0;  // parts: of uploads that are not completed
  uint64_t bytes = 0;                                              // of all those
  uint64_t orphan_extents = 0, orphan_bytes = 0;                   // in the space map, without an owner: space, no loss
  uint64_t extent_bytes = 0;                                       // in the space map, with an owner or without

  bool damaged() const { return !index.empty() || !refusals.empty() || lost_count != 0; }
};

// Blocks. service_unavailable: a server has the store open; not_found: there is no store; io_error.
// Errors of the device have a sentence in `trouble`: invalid_argument, unsupported, corrupt_object.
Result<FsckReport> fsck(const FsckOptions& options);

}  // namespace verbena::store::local
