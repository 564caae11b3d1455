// An RDMA device as reliable connections use it: queue pairs and registered memory. `ibv_device` is libibverbs behind
// it; unit tests put a double there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "rdma/rc/peer_token.h"

namespace verbena::rdma::rc {

// The other end of a connection. Numbers have 24 bits.
struct Peer {
  uint32_t queue_pair = 0;
  uint32_t sequence = 0;  // of its first packet
  Gid gid{};
};

struct Completion {
  uint64_t id = 0;
  int status = 0;  // of the device; 0: success
  // Of a receive:
  std::optional<uint32_t> immediate{};
  uint64_t bytes = 0;
};

// A registration. Ends it when destroyed: no peer reaches the memory by its key any more.
class Region {
 public:
  virtual ~Region() = default;
  virtual uint32_t local_key() const = 0;
  virtual uint32_t remote_key() const = 0;
};

// One end of a reliable connection, or what posts the same operations without one (rdma/dc). Operations are executed in
// order. When it was destroyed, no operation of either side touches memory through it any more. Used on one thread at a
// time.
class QueuePair {
 public:
  struct Remote {
    uint64_t address = 0;
    uint32_t key = 0;
  };
  virtual ~QueuePair() = default;
  virtual uint32_t number() const = 0;
  // May wait for the network: never called on a loop. Returns the device's own GID on this connection.
  virtual Result<Gid> connect(const Peer& peer, uint32_t own_sequence) = 0;
  virtual Result<void> post_write(uint64_t id, Bytes from, uint32_t local_key, Remote to,
                                  std::optional<uint32_t> immediate) = 0;
  virtual Result<void> post_read(uint64_t id, MutableBytes into, uint32_t local_key, Remote from) = 0;
  // For one message with an immediate value of the peer.
  virtual Result<void> post_receive(uint64_t id) = 0;
  // Takes completions; returns how many.
  virtual size_t poll(std::span<Completion> into) = 0;
  // Readable after the first completion that follows arm().
  virtual int events() const = 0;
  virtual Result<void> arm() = 0;
};

// Memory and queue pairs that can be used together. Members of one cannot be reached by way of another's.
class Domain {
 public:
  virtual ~Domain() = default;
  // `remote_write`: peers of this domain's queue pairs may write there by the region's key; else no peer has access.
  virtual Result<std::unique_ptr<Region>> add_memory(MutableBytes memory, bool remote_write) = 0;
  // `remote_write`: whether the peer may write at all.
  virtual Result<std::unique_ptr<QueuePair>> add_queue_pair(bool remote_write) = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // The GID from which a peer of that GID is reached.
  virtual Gid own_gid(const Gid& peer) const = 0;
  // Reads the port's state and tables again, for queue pairs that are made from then on. unsupported: it is not active,
  // not in the partition, or has no GID.
  virtual Result<void> refresh() = 0;
  virtual Result<std::unique_ptr<Domain>> add_domain() = 0;
};

struct DeviceChoice {
  std::string name;              // empty: the first with an active port
  std::optional<int> gid_index;  // none: by the peer's GID
  uint8_t port = 1;
  std::optional<uint16_t> pkey{};  // InfiniBand's partition; none: the first entry of the port's table
  std::optional<uint16_t> vlan{};  // Ethernet's: only GIDs of its interface; none: any
};
// The entry of a port's table that makes its queue pairs members of the partition; a full membership before a limited
// one, whose members reach only full members. nullopt: the port is no member.
std::optional<uint16_t> partition_entry(std::span<const uint16_t> table, uint16_t pkey);

// libibverbs. unsupported: no such device, or none at all.
Result<std::unique_ptr<Device>> open_ibv_device(const DeviceChoice& choice);

}  // namespace verbena::rdma::rc
