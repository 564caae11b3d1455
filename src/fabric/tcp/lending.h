// The windows that a client's link lends now. Shared by the link and its Lents, so that either may be destroyed first.
// The lock lets a Lent end on another thread than the one that polls.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "fabric/fabric.h"

namespace verbena::fabric::tcp {

class TcpLink;

class Lending {
 public:
  Lending();

  struct Slot {
    MutableBytes memory;
    Access access = Access::server_writes;
    uint32_t generation = 0;
    bool lent = false;
  };

  std::recursive_mutex mutex;
  TcpLink* link = nullptr;  // null after its destruction

  // All with the mutex held.
  uint64_t add(MutableBytes memory, Access access);
  void remove(uint64_t key);
  // The bytes from `offset` on; empty when the window is not lent, not for this access, or shorter.
  MutableBytes find(uint64_t key, Access access, uint64_t offset, uint64_t size) const;

 private:
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t generation_ = 0;
};

std::unique_ptr<Lent> lend(const std::shared_ptr<Lending>& lending, MutableBytes memory, Access access);

// Memory from the system, in whole pages; large pieces on huge pages if there are any.
Result<std::shared_ptr<MutableBytes>> allocate_pages(size_t size);

}  // namespace verbena::fabric::tcp
