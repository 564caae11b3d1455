// A client's memory behind a reliable connection, as a window.
#pragma once

#include <memory>
#include <optional>

#include "fabric/fabric.h"
#include "memory/arena.h"
#include "rdma/rc/channel.h"

namespace verbena::rdma::rc {

// The server's memory that operations start from.
struct OwnMemory {
  memory::Arena& arena;
  uint32_t key;  // of the arena's registration
};

class RcWindow final : public fabric::Window {
 public:
  struct Place {
    uint64_t address = 0, size = 0;
    uint32_t key = 0;
  };
  RcWindow(std::shared_ptr<Channel> channel, OwnMemory own, const Place& place)
      : channel_(std::move(channel)), own_(own), place_(place) {}

  // The write that ends at `end` carries the immediate value, which tells the peer that all have landed.
  void announce_end(uint64_t end, uint32_t immediate) { end_ = {end, immediate}; }

  uint64_t size() const override { return place_.size; }
  bool by_device() const override { return true; }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override;
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override;

 private:
  struct End {
    uint64_t at = 0;
    uint32_t immediate = 0;
  };
  Result<QueuePair*> usable(uint64_t at, size_t size);

  std::shared_ptr<Channel> channel_;
  OwnMemory own_;
  Place place_;
  std::optional<End> end_;
};

}  // namespace verbena::rdma::rc
