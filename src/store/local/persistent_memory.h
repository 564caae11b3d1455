// The seam under the log on persistent memory (pmem_log.h): stores, write-backs of cache lines, fences. There are two
// of it: a mapping of the machine's (of a file on a DAX file system, or of a device-dax node: dax_node.h), and in tests
// a model that loses what was not written back.
//
// A store is durable when its line has been flushed after it and a fence has followed. Before that a power cut may keep
// it or not, whatever it does with others: a processor may reorder stores, also of one line. Of the stores to one
// aligned word of 8 bytes it keeps the first ones, in their order, for some number of them. A word is never torn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace verbena::store::local {

inline constexpr uint64_t cache_line = 64;
inline constexpr uint64_t pmem_log_size = 256 * MiB;
inline constexpr const char* pmem_file_name = "verbena.pmem";  // of the log, in its folder

// What has the log, and what its operator can do about it: sentences without their stop.
struct PmemPlace {
  std::filesystem::path path;  // of the file, or of the device-dax node
  bool is_node = false;

  std::string named() const;               // " (data.pmem: PATH)"
  std::string bad_block_advice() const;    // where the log's first page cannot be used
  std::string another_log_advice() const;  // where something else is in the log's place
};

// Not thread-safe. False: the memory could not be touched (a poisoned line, a missing page); the call may have happened
// in part.
class PersistentMemory {
 public:
  virtual ~PersistentMemory() = default;
  virtual const PmemPlace& place() const = 0;
  virtual uint64_t size() const = 0;
  virtual bool load(MutableBytes into, uint64_t offset) const = 0;
  virtual bool store(uint64_t offset, Bytes bytes) = 0;
  virtual bool store_number(uint64_t offset, uint64_t number) = 0;  // 8 bytes at a multiple of 8, at once
  virtual bool flush(uint64_t offset, uint64_t length) = 0;         // every line of the range
  virtual void fence() = 0;
};

// Makes it by the name of a folder or of a device-dax node (data.pmem).
class PersistentMemories {
 public:
  virtual ~PersistentMemories() = default;
  // Opens the log file in the folder, or makes it with this size, all zeros; or opens the log of a node, which has the
  // size that it was formatted with. It belongs to the caller alone until destroyed. service_unavailable: another
  // server has it; unsupported: no cache line can be made durable there; `trouble` receives a sentence.
  virtual Result<std::unique_ptr<PersistentMemory>> open(const std::filesystem::path& where, uint64_t size,
                                                         std::string& trouble) = 0;
};

// The machine's: of folders MAP_SYNC or nothing, of nodes memory that the kernel knows as persistent. Lives for the
// whole program.
PersistentMemories& real_persistent_memories();
// Whether data.pmem may name this: a folder (by a file that is made and removed) or a node (which is looked at, and not
// locked). The rest of a sentence that begins with its name: "is on a DAX file system"; `trouble` receives why not.
Result<std::string> check_persistent_memory(const std::filesystem::path& where, std::string& trouble);
// The instruction that writes lines back here: "clwb", "clflushopt", "clflush", "dc cvap"; "": this processor has none.
std::string_view line_write_back();

// A refusal with a sentence, and the text of a number from errno (0: none) behind it.
std::unexpected<Error> refuse_memory(std::string& trouble, std::string sentence, int error, Errc as);
// unsupported: this processor has no instruction for it.
Result<void> check_line_write_back(std::string& trouble);

// A mapping, owned, all of it or the part that `begin` and `size` tell. Touches it under base/bus_guard.h. Whether it
// is persistent is the maker's promise.
class MappedMemory final : public PersistentMemory {
 public:
  struct Mapping {
    std::byte* base = nullptr;
    uint64_t length = 0;  // bytes
    uint64_t begin = 0, size = 0;
  };
  // The files are held until it is destroyed: their locks are its owner's.
  MappedMemory(PmemPlace place, Fd file, const Mapping& mapping, Fd lock = {});
  ~MappedMemory() override;
  MappedMemory(const MappedMemory&) = delete;
  // Waits now for what the first touch of each page waits for. Older kernels do not.
  void populate();
  const PmemPlace& place() const override { return place_; }
  uint64_t size() const override { return mapping_.size; }
  bool load(MutableBytes into, uint64_t offset) const override;
  bool store(uint64_t offset, Bytes bytes) override;
  bool store_number(uint64_t offset, uint64_t number) override;
  bool flush(uint64_t offset, uint64_t length) override;
  void fence() override;

 private:
  const PmemPlace place_;
  const Fd file_, lock_;
  const Mapping mapping_;
  std::byte* const base_;  // of the part
};

}  // namespace verbena::store::local
