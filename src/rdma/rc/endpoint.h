// The server's end of all reliable connections: its device, which is opened at the first use, and the rule for peers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocking.h"
#include "memory/arena.h"
#include "rdma/fabric_token_windows.h"
#include "rdma/rc/rc_window.h"

namespace verbena::rdma::rc {

class Endpoint {
 public:
  using OpenDevice = std::function<Result<std::unique_ptr<Device>>()>;
  // `networks`: as FabricTokenWindows::Options. bad_config: one of them is no network.
  static Result<std::unique_ptr<Endpoint>> create(memory::Arena& arena, const std::vector<std::string>& networks,
                                                  OpenDevice open_device);

  // Opens the device and registers the arena with it, without access for peers. unsupported: there is none.
  Task<Result<void>> open();

  // Runs blocking work of the device: it waits for the network or pins memory.
  BlockingPool& pool() { return pool_; }
  // Ends the pool while the loops are there to which its work posts; what is queued never runs.
  void end_work(std::chrono::milliseconds at_most);
  // Destroys it there.
  void discard(std::shared_ptr<void> object);

  // After open():
  // The GID to connect to. rdma_not_supported: neither the HTTP peer's address nor in a network, or of this host.
  Result<Gid> check_peer(const PeerToken& peer, std::string_view http_peer) const;
  Device& device() { return *device_; }
  Domain& domain() { return *domain_; }  // of the arena: peers of its queue pairs have no access
  OwnMemory own_memory() { return {arena_, region_->local_key()}; }
  memory::Arena& arena() { return arena_; }

 private:
  Endpoint(memory::Arena& arena, OpenDevice open_device)
      : arena_(arena), open_device_(std::move(open_device)), pool_(threads, waiting_max) {}
  Result<void> open_now();

  static constexpr unsigned threads = 2;
  static constexpr size_t waiting_max = 256;
  memory::Arena& arena_;
  OpenDevice open_device_;
  std::vector<Network> networks_;
  std::mutex opening_;
  std::atomic<bool> opened_ = false;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Region> region_;
  BlockingPool pool_;  // destroyed first: it may still destroy what uses the device
};

}  // namespace verbena::rdma::rc
