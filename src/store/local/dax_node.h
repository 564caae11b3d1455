// A device-dax node (/dev/dax0.0): memory that Linux gives to programs as a character device, which can only be mapped
// (drivers/dax in the kernel's source). What the kernel tells of it, whether it is persistent, and a store's log there.
//
//   0     the mark of a formatted node, the size of its log, and their CRC32C
//   4096  the log (pmem_log.h)
//
// `verbena device format` writes the first of these; a start never does, so no node is overwritten because its name was
// wrong. MAP_SYNC tells nothing here: Linux accepts it for every node, also of memory that forgets. What tells is
// sysfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/local/persistent_memory.h"

namespace verbena::store::local {

struct DaxFacts {
  uint64_t size = 0, alignment = 0;  // bytes; mappings begin and end at multiples of the alignment. 0: not told
  bool persistent = false;           // the kernel says so, and writing back lines is all that it needs
  std::string kept;                  // what is left when the power fails, in words
  uint64_t bad_bytes = 0;            // in bad blocks of the node; of its region, where its place there is not told
};

// By the device's folder in sysfs.
DaxFacts dax_facts(const std::filesystem::path& device);
// What a region of persistent memory keeps when the power fails (Documentation/ABI/testing/sysfs-bus-nd).
std::string what_is_kept(const std::filesystem::path& region);
// Of a file with lines "SECTOR COUNT": what is bad from one byte to another.
uint64_t bad_bytes(const std::filesystem::path& badblocks, uint64_t from = 0, uint64_t to = UINT64_MAX);

// Whether the name is a character device's. Which one, opening tells.
bool is_dax_node(const std::filesystem::path& path);

// The log of a formatted node. It belongs to the caller alone until destroyed, as far as locks reach: other names of
// the device are found by a lock on a file in sysfs, which every user may take, but not those in a container with a
// network of its own, which has another sysfs. `trouble` receives why not.
Result<std::unique_ptr<MappedMemory>> open_dax_log(const std::filesystem::path& path, std::string& trouble);
// As check_persistent_memory().
Result<std::string> check_dax_node(const std::filesystem::path& path, std::string& trouble);

struct DaxFormat {
  DaxFacts facts;
  uint64_t log_size = 0;  // 0: it is not formatted
  bool is_held = false;   // a store has the log (or had the one before) and has not given it back
  bool is_kept = false;   // the log was there, and was left as it is
};
// Writes nothing, and needs no right to.
Result<DaxFormat> look_at_dax_node(const std::filesystem::path& path, std::string& trouble);
// Makes place for a log of this size. Without `force` refuses a node that has any bytes but zeros where the log will
// be, or whose bytes there cannot be read; but if only the node's own first page is lost, and the log behind it is
// whole, that page is written again for it, and nothing else.
Result<DaxFormat> format_dax_node(const std::filesystem::path& path, uint64_t log_size, bool force,
                                  std::string& trouble);

}  // namespace verbena::store::local
