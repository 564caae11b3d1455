// The client's end of a reliable connection on libibverbs alone, for what speaks such dialects from outside: rc_peer.cc
// (a test) and bench/dialect_load.cc. A failure ends the program: both have nothing to do without a connection.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace verbena::vm {

// Ends the program with status 2.
[[noreturn]] void give_up(const char* what);

// An open device with registered memory, which peers may read and write. Queue pairs are made one after the other.
struct RcDevice {
  // `address`: the IPv4 address whose RoCE v2 GID is used. `bytes`: of the memory, not 0.
  RcDevice(const std::string& name, const char* address, size_t bytes);
  ~RcDevice();
  RcDevice(const RcDevice&) = delete;
  RcDevice& operator=(const RcDevice&) = delete;

  std::string gid_hex() const;

  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;  // by which the queue pairs' completions wake a thread
  ibv_mr* region = nullptr;
  uint8_t gid_index = 0;
  ibv_gid gid{};
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<unsigned char> memory;
};

// One queue pair of a device, with one receive posted.
class RcPair {
 public:
  static constexpr uint32_t own_sequence = 0x0a1b2c;  // of its first packet

  explicit RcPair(RcDevice& device);
  ~RcPair();
  RcPair(const RcPair&) = delete;
  RcPair& operator=(const RcPair&) = delete;

  uint32_t number() const { return queue_pair_->qp_num; }
  // Both dialects' text for this end.
  std::string token() const;
  // `gid`: 32 hexadecimal digits.
  void connect(uint32_t number, uint32_t sequence, const std::string& gid);
  // RDMA WRITE of the first bytes of the device's memory, with an immediate value: "ok" or what failed.
  std::string write(uint64_t address, uint32_t key, uint32_t cookie, size_t bytes);
  // The next completion, for which the device wakes this thread; false after 20 seconds.
  bool take(ibv_wc& done);

 private:
  RcDevice& device_;
  ibv_cq* completions_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
};

}  // namespace verbena::vm
