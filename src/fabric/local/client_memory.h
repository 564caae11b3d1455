// Memory that a client shares with the server, on the server's side: checked, counted and mapped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

// A bounded resource that several threads take from.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}
  bool take(uint64_t amount) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (amount > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + amount, std::memory_order_relaxed));
    return true;
  }
  void give(uint64_t amount) { used_.fetch_sub(amount, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

// Limits of mapped memory. A piece counts until it is unmapped, which is after the last operation on it.
struct MemoryBudgets {
  std::shared_ptr<Budget> port_bytes;
  std::shared_ptr<Budget> peer_bytes;
  std::shared_ptr<Budget> peer_count;
};

class ClientMemory {
 public:
  // Maps a descriptor sent by a client, which claims to be `size` bytes long. It must be a memfd of ordinary pages (of
  // hugetlbfs, a missing page cannot be made), sealed against shrinking and growing, writable, and backed by memory
  // already: memory that the client allocated is charged to the client, and a hole would be charged to the process that
  // touches it. A client can still punch holes later; the server then survives (bus_guard.h), within the budgets.
  // invalid_argument: an unsuitable descriptor; slow_down: past a budget; out_of_memory.
  static Result<std::shared_ptr<ClientMemory>> map(Fd fd, uint64_t size, const MemoryBudgets& budgets);

  ~ClientMemory();
  ClientMemory(const ClientMemory&) = delete;

  std::byte* data() const { return mapping_.data(); }
  uint64_t size() const { return mapping_.size(); }

 private:
  ClientMemory(const MemoryBudgets& budgets, uint64_t size) : budgets_(budgets), counted_(size) {}

  MemoryBudgets budgets_;
  uint64_t counted_;
  Mapping mapping_;
};

}  // namespace verbena::fabric::local
