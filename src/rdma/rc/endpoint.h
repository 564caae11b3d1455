// The server's end of all reliable connections: its device, which is opened at the first use, and the rule for peers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/blocking.h"
#include "base/clock.h"
#include "fabric/ofi/ofi.h"
#include "memory/arena.h"
#include "rdma/peer_rule.h"
#include "rdma/rc/first_use.h"
#include "rdma/rc/port_reading.h"
#include "rdma/rc/rc_window.h"
#include "rdma/rc/turns.h"

namespace verbena::rdma::rc {

class Endpoint {
 public:
  using OpenDevice = std::function<Result<std::unique_ptr<Device>>()>;
  // `networks`: as FabricTokenWindows::Options. bad_config: one of them is no network.
  static Result<std::unique_ptr<Endpoint>> create(memory::Arena& arena, const std::vector<std::string>& networks,
                                                  OpenDevice open_device);

  // Opens the device and registers the arena with it, without access for peers. unsupported: there is none. A failure
  // is the answer for a second.
  Task<Result<void>> open();

  // Runs blocking work of the device that does not wait for the network: it may pin memory.
  BlockingPool& pool() { return pool_; }
  // Runs work that waits for the network of the payer's choice, in threads of its own and in the payer's turn.
  template <class Work>
  Task<std::invoke_result_t<Work>> run_in_turn(const char* reason, Payer payer, Work work) {
    VB_CO_ASSIGN(const Turns::Turn turn, co_await turns_.take(std::move(payer)));
    co_return co_await network_pool_.run(reason, std::move(work));
  }
  // Ends both pools while the loops are there to which their work posts; what is queued never runs. False: some work
  // goes on, and uses this, the arena and the loops: they must be kept.
  bool end_work(std::chrono::milliseconds at_most);
  // Destroys it in pool().
  void discard(std::shared_ptr<void> object);

  // After open():
  // The GID to connect to. rdma_not_supported: neither the HTTP peer's address nor in a network, or of this host.
  Result<Gid> check_peer(const PeerToken& peer, std::string_view http_peer) const;
  Device& device() { return *device_; }
  Domain& domain() { return *domain_; }  // of the arena: peers of its queue pairs have no access
  OwnMemory own_memory() { return {arena_, region_->local_key()}; }
  memory::Arena& arena() { return arena_; }
  std::shared_ptr<Channel> channel(std::unique_ptr<QueuePair> pair, Channel::GiveBack give_back) const;

  // Whether the port was up (unsupported: it was not) when it was read, less than a second ago. nullopt: earlier.
  std::optional<Result<void>> known_port() const { return port_.known(); }
  // In a pool: reads the port again if that was a second ago, since its addresses may have changed. unsupported: the
  // port is down.
  Result<void> refresh_port();
  // In a pool. Returns the own GID of the connection. unsupported: the port has changed. It has been read again, so
  // that the next connection finds it as it is.
  Result<Gid> connect(QueuePair& pair, const Peer& peer, uint32_t own_sequence);

 private:
  Endpoint(memory::Arena& arena, OpenDevice open_device)
      : arena_(arena),
        open_device_(std::move(open_device)),
        pool_(threads, waiting_max),
        network_pool_(static_cast<unsigned>(turn_limits.all_max), turn_limits.all_max) {}
  Result<void> try_open();

  static constexpr unsigned threads = 2;
  static constexpr size_t waiting_max = 256;
  static constexpr Turns::Limits turn_limits{};
  memory::Arena& arena_;
  OpenDevice open_device_;
  PeerRule rule_;
  FirstUse first_use_;
  std::atomic<bool> opened_ = false;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Region> region_;
  PortReading port_;
  Turns turns_{turn_limits};
  BlockingPool pool_;  // destroyed before the device: it may still destroy what uses it
  BlockingPool network_pool_;
};

}  // namespace verbena::rdma::rc
