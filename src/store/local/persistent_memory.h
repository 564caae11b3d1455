// The seam under the log on persistent memory (pmem_log.h): stores, write-backs of cache lines, fences. There are two
// of it: a mapping of a file on a DAX file system, and in tests a model that loses what was not written back.
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
inline constexpr const char* pmem_file_name = "verbena.pmem";  // of the log, in its folder

// For the operator, where the log's first page cannot be used.
inline constexpr const char* pmem_bad_block_advice =
    "The memory has a bad block there, or the device is broken. Move the file away, or remove it: a new one gets other "
    "blocks";

// Not thread-safe. False: the memory could not be touched (a poisoned line, a missing page); the call may have happened
// in part.
class PersistentMemory {
 public:
  virtual ~PersistentMemory() = default;
  virtual uint64_t size() const = 0;
  virtual bool load(MutableBytes into, uint64_t offset) const = 0;
  virtual bool store(uint64_t offset, Bytes bytes) = 0;
  virtual bool store_number(uint64_t offset, uint64_t number) = 0;  // 8 bytes at a multiple of 8, at once
  virtual bool flush(uint64_t offset, uint64_t length) = 0;         // every line of the range
  virtual void fence() = 0;
};

// Makes it by the name of a folder.
class PersistentMemories {
 public:
  virtual ~PersistentMemories() = default;
  // Opens the log file in the folder, or makes it with this size, all zeros. It belongs to the caller alone until
  // destroyed. service_unavailable: another server has it; unsupported: no cache line can be made durable there;
  // `trouble` receives a sentence.
  virtual Result<std::unique_ptr<PersistentMemory>> open(const std::filesystem::path& folder, uint64_t size,
                                                         std::string& trouble) = 0;
};

// The machine's: MAP_SYNC or nothing. Lives for the whole program.
PersistentMemories& real_persistent_memories();
// Whether a folder can hold persistent memory, by a file that is made and removed; `trouble` receives why not.
Result<void> check_persistent_memory(const std::filesystem::path& folder, std::string& trouble);
// The instruction that writes lines back here: "clwb", "clflushopt", "clflush", "dc cvap"; "": this processor has none.
std::string_view line_write_back();

// A mapping, owned. Touches it under base/bus_guard.h. Whether it is persistent is the maker's promise.
class MappedMemory final : public PersistentMemory {
 public:
  MappedMemory(Fd file, std::byte* base, uint64_t size);
  ~MappedMemory() override;
  MappedMemory(const MappedMemory&) = delete;
  uint64_t size() const override { return size_; }
  bool load(MutableBytes into, uint64_t offset) const override;
  bool store(uint64_t offset, Bytes bytes) override;
  bool store_number(uint64_t offset, uint64_t number) override;
  bool flush(uint64_t offset, uint64_t length) override;
  void fence() override;

 private:
  const Fd file_;  // holds the lock
  std::byte* const base_;
  const uint64_t size_;
};

}  // namespace verbena::store::local
