// Memory that a client shares with the server, on the server's side: checked, counted and mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "fabric/local/fd.h"
#include "fabric/local/shares.h"

namespace verbena::fabric::local {

// Limits of mapped memory. A piece counts until it is unmapped, which is after the last operation on it.
struct MemoryBudgets {
  std::shared_ptr<Budget> port_bytes;
  std::shared_ptr<Budget> peer_bytes;
  std::shared_ptr<Budget> peer_count;
  std::shared_ptr<Budget> user_mappings;
};

class ClientMemory {
 public:
  // Maps a descriptor sent by a client, which claims to be `size` bytes long. It must be a memfd of ordinary pages (of
  // hugetlbfs, a missing page cannot be made), sealed against shrinking and growing, writable, and backed by memory
  // already: memory that the client allocated is charged to the client, and a hole would be charged to the process that
  // touches it. A client can still punch holes later; the server then survives (bus_guard.h), within the budgets.
  // invalid_argument: an unsuitable descriptor; slow_down: past a budget; out_of_memory.
  static Result<std::shared_ptr<ClientMemory>> map(Fd fd, uint64_t size, const MemoryBudgets& budgets);

  // Unmapped later, by the disposer's thread.
  ~ClientMemory();
  ClientMemory(const ClientMemory&) = delete;

  // Called once it is unmapped and does not count any more, on the disposer's thread. Set before the last reference
  // is dropped.
  void on_unmapped(std::function<void()> call) { on_unmapped_ = std::move(call); }

  std::byte* data() const { return mapping_.data(); }
  uint64_t size() const { return mapping_.size(); }

 private:
  ClientMemory(Mapping mapping, std::shared_ptr<const void> taken)
      : taken_(std::move(taken)), mapping_(std::move(mapping)) {}

  std::shared_ptr<const void> taken_;  // of the budgets
  std::function<void()> on_unmapped_;
  Mapping mapping_;
};

}  // namespace verbena::fabric::local
