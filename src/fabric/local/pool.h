// Client: memory to lend. A few large memfds ("slabs"), sealed and backed by memory, so that descriptors stay few;
// pieces are cut from them first fit. A piece larger than a slab gets a memfd of its own, which is freed with it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

class Slab {
 public:
  // A multiple of the page size. Populated, so that neither end meets a page fault later.
  static Result<std::shared_ptr<Slab>> create(size_t size);

  uint64_t id() const { return id_; }  // unique in this process
  int memfd() const { return memfd_.get(); }
  std::byte* data() const { return mapping_.data(); }
  size_t size() const { return mapping_.size(); }

 private:
  Slab() = default;
  uint64_t id_ = 0;
  Fd memfd_;
  Mapping mapping_;
};

// Thread-safe. A piece keeps its slab alive, and the pool too.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static constexpr size_t slab_size_first = 16 * MiB;
  static constexpr size_t slab_size_max = 64 * MiB;

  // At least 1 byte; page-aligned. out_of_memory when the machine has no more.
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size);

  struct Place {
    std::shared_ptr<Slab> slab;
    uint64_t offset = 0;
  };
  // The position of `memory`; nullopt when it is not all inside one slab.
  std::optional<Place> find(Bytes memory) const;

 private:
  struct Entry {
    std::shared_ptr<Slab> slab;
    bool dedicated = false;
    std::map<size_t, size_t> free;  // offset -> size, never adjacent
  };
  struct Piece;

  std::shared_ptr<MutableBytes> hand_out(const std::shared_ptr<Slab>& slab, size_t offset, size_t size);
  void give_back(const Slab& slab, size_t offset, size_t size);

  mutable std::mutex mutex_;
  std::map<const std::byte*, Entry> entries_;  // by address
  size_t slabs_made_ = 0;
};

}  // namespace verbena::fabric::local
