// A port of an RDMA device as libibverbs tells it, and what queue pairs of every kind are set to.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "rdma/rc/device.h"

namespace verbena::rdma::rc {

inline constexpr int send_queue = 64;
inline constexpr uint8_t packet_timeout = 14;    // 4.096 us * 2^14: 67 ms until a packet is sent again
inline constexpr uint8_t retries = 7;            // of those
inline constexpr uint8_t not_ready_retries = 7;  // without end: the deadline of an operation ends them
inline constexpr uint8_t reads_at_once = 1;      // the peer may accept no more
inline constexpr uint8_t hops = 64;

struct GidEntry {
  Gid gid{};
  uint32_t index = 0;
  bool version2 = false;
};

// Of RoCE both ends need the same: an IPv4-mapped address, a link-local one, or another of IPv6.
enum class GidKind : uint8_t { ipv4, link_local, ipv6 };
GidKind kind_of(const Gid& gid);

// What the kernel says about an entry of a port's tables that is not there, or not as it was, so that the port is to be
// read again. Of an address that it resolves ENODEV says no more than that.
bool tells_of_the_port(int error);

// What queue pairs need to know of a port. It changes while the port is open: addresses come and go, a subnet manager
// deals out partitions anew.
struct PortState {
  ibv_mtu mtu = IBV_MTU_1024;
  bool ethernet = true;    // else InfiniBand
  uint16_t partition = 0;  // an entry of the port's table
  std::vector<GidEntry> gids;
  std::optional<uint32_t> gid_index;
  // Of InfiniBand:
  uint16_t lid = 0;        // the first of its own
  uint8_t lid_bits = 0;    // it has 2^lid_bits, one after the other
  bool needs_gid = false;  // a packet must have GIDs even within the subnet

  bool has_lid(uint16_t one) const { return one >> lid_bits == lid >> lid_bits; }
  // RoCE needs the same IP family and version on both sides, and a peer tells only its GID: IPv4-mapped peers are
  // reached by version 2, link-local ones by version 1, if the device has it. The first GID if none is of that kind.
  const GidEntry& entry_for(const Gid& peer) const;
};
using PortStatePtr = std::shared_ptr<const PortState>;

// The calls that tell it, which tests replace. As ibv_query_port(3), ibv_query_gid_table(3), ibv_query_pkey(3).
struct PortCalls {
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* into);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* into, size_t entries_max);
  int (*query_pkey)(ibv_context* context, uint8_t port, int index, __be16* into);
};
const PortCalls& libibverbs_port_calls();

// Thread-safe.
class OpenPort {
 public:
  OpenPort(std::shared_ptr<ibv_context> context, const DeviceChoice& choice,
           const PortCalls& calls = libibverbs_port_calls())
      : context_(std::move(context)), choice_(choice), calls_(calls) {}
  ibv_context* context() const { return context_.get(); }
  uint8_t number() const { return choice_.port; }
  // After the first read().
  PortStatePtr state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  // False, and as it was: not active, not in the partition, or without a GID.
  bool read();

 private:
  std::vector<uint16_t> partitions(uint16_t size) const;
  std::vector<GidEntry> gids(size_t table_size) const;

  std::shared_ptr<ibv_context> context_;
  DeviceChoice choice_;
  PortCalls calls_;
  mutable std::mutex mutex_;
  PortStatePtr state_;
};

}  // namespace verbena::rdma::rc
