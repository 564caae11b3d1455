// A double of an RDMA device: moves bytes between the server's memory and a test's, and fails when told to.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "rdma/rc/device.h"

namespace verbena::rdma::rc::test {

// What both sides see. Thread-safe: work of the device runs in threads of a pool.
class Fabric {
 public:
  static constexpr uint32_t client_key = 0x77;

  // Device of the server.
  Result<std::unique_ptr<Device>> open();
  // Of its port, as a device finds it when it is opened or reads it again.
  std::string own_address = "127.0.0.1";

  // The client's memory, which the server reaches by client_key.
  std::vector<std::byte> memory;
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory.data()); }

  // A client's RDMA WRITE with an immediate value, as its queue pair would do it. False: no such region, or it is
  // smaller.
  bool client_writes(uint32_t queue_pair, uint64_t address, uint32_t key, Bytes bytes, uint32_t immediate);

  std::function<void(uint32_t queue_pair, const Peer& peer)> on_connect;  // once, when the server has connected
  std::function<void(const Peer& peer)> before_connect;                   // each time; may wait
  bool is_stuck = false;                                                  // operations never complete
  std::chrono::milliseconds lands_late{0};  // not 0: stuck writes of a queue pair that has ended land after this
  int fail_status = 0;                      // of completions, else 0
  bool refuses_pairs = false;               // no queue pair can be made
  std::vector<uint32_t> immediates;         // of the server's writes
  size_t writes = 0, reads = 0;
  size_t pairs();                 // that exist
  size_t remote_regions();        // that a peer can write into
  std::thread::id ended_in;       // the thread that ended the last one of these
  std::thread::id pair_ended_in;  // likewise, the last queue pair
  Deadline pair_ended_at{};
  static Gid gid_of(const std::string& address);

  struct Ring;  // completions of a queue pair
  struct Shared;
  std::shared_ptr<Shared> shared();
  ~Fabric();

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace verbena::rdma::rc::test
