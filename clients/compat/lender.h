// Memory that is registered on every rail, and tokens for it. A thread of its own drives the fabric. May be called from
// any thread, but not in a fork of the process: there every call is refused, and the end leaves the devices alone,
// which are the parent's.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rail.h"
#include "registrations.h"

namespace verbena::compat {

// Each call throws FabricFault with the reason when it is refused.
class Lender {
 public:
  // `devices`: as open_rails has it; empty: $S3RDMA_DEVICE.
  explicit Lender(std::string devices);
  ~Lender();

  // Counted by address: the memory stays registered until it was unpinned as often, or dropped.
  void pin(void* memory, size_t size);
  void unpin(void* memory);
  // True if it was pinned, however often.
  bool drop(void* memory);

  // For `size` bytes at `offset` from `memory`, which is pinned or lies within what is.
  std::string token(void* memory, size_t size, size_t offset);
  // The registered bytes from `memory` on; 0 if it is not registered.
  size_t pinned_from(void* memory);

  // The token's rail is passed over for a while.
  void failed(std::string_view token);
  int rails() const { return static_cast<int>(rails_.size()); }
  int healthy_rails();

 private:
  struct Pin {
    size_t size = 0;
    int references = 0;
    std::vector<Region> regions;  // one for each rail
  };

  using Pins = Registrations<Pin>;
  std::unique_lock<std::mutex> hold();
  bool is_forked() const;
  void end(Pins::Place pin);
  size_t next_rail();
  void progress();

  std::vector<std::unique_ptr<Rail>> rails_;
  std::mutex mutex_;
  Pins pins_;  // closed before the rails
  const pid_t process_;
  size_t turn_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace verbena::compat
