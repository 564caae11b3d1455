// Windows in the memory of a GPU: what a Port and a Link can do besides (fabric.h). Where client and server are on one
// host (fabric/local) the client shares that memory with the server, and the GPU copies. Between hosts (fabric/ofi) the
// RDMA devices reach it themselves, and the server knows nothing of it.
#pragma once

#include "fabric/fabric.h"

namespace verbena::memory::cuda {
class Devices;
class Mapped;
}  // namespace verbena::memory::cuda

namespace verbena::fabric {

// Descriptors that are handed over at once.
inline constexpr size_t handed_over_max = 128;

// Descriptors that a client has handed over, in its order. They are open as long as `open` lives, which any thread may
// end.
struct HandedOver {
  std::vector<int> descriptors = {};
  std::shared_ptr<const void> open = {};
};

// A Port whose clients share memory of devices. On its core's thread.
class DevicePort {
 public:
  // What the peer has handed over under this number, once. invalid_argument: nothing, or too long ago.
  virtual Result<HandedOver> take_handed_over(PeerId peer, uint32_t number) = 0;
  // From now on windows in that memory are opened, in which `devices` copy. slow_down: the peer has too many. The
  // number names the memory in windows.
  virtual Result<uint64_t> add_device_memory(PeerId peer, std::shared_ptr<memory::cuda::Mapped> memory,
                                             std::shared_ptr<memory::cuda::Devices> devices) = 0;
  // Copies in it that have begun end. Returns how to wait for the unmapping; empty: there is no such memory.
  using Fence = std::function<void(std::function<void()> then)>;
  virtual Fence remove_device_memory(PeerId peer, uint64_t number) = 0;

 protected:
  ~DevicePort() = default;
};

// A part of a device's memory that the server knows by a number.
struct DeviceLoan {
  uint64_t memory = 0;  // that number
  uint64_t at = 0, size = 0;
  // Set when the loan ends while the device may still copy for the server: the device did not finish in time.
  bool* unfinished = nullptr;
};

// Memory of a device that is lent, perhaps among other memory.
class DeviceLent : public Lent {
 public:
  // After revoke(): whether the device may still be at work. The destructor then waits until it has finished, or has
  // had its time since revoke(). It needs no link, so it need not hold what guards the link.
  virtual bool is_at_work() const = 0;
};

// A part of a device's memory that RDMA devices of its host reach.
enum class DeviceMaker : uint8_t { nvidia, amd };
struct PeerLoan {
  uint64_t address = 0, size = 0;  // of the device, bytes
  DeviceMaker maker = DeviceMaker::nvidia;
  int device = 0;           // its number for CUDA or HIP
  int descriptor = -1;      // of a dma-buf that contains it; -1: none
  uint64_t begin = 0;       // the address of the dma-buf's first byte
  bool by_address = false;  // the kernel also finds the memory by its address
};

class PeerLink {
 public:
  // The provider registers memory of devices here. Whether it takes one's is known when that is lent.
  virtual bool reaches_devices() const = 0;
  // The Lent has no bytes: no CPU touches that memory. unsupported: the provider does not register it. The descriptor
  // is not needed after this.
  virtual Result<std::unique_ptr<Lent>> lend_peer(const PeerLoan& loan, Access access) = 0;

 protected:
  ~PeerLink() = default;
};

class DeviceLink {
 public:
  // Gives the server copies of descriptors, under the number that is returned. slow_down: too many wait there; a moment
  // later it may take them.
  virtual Result<uint32_t> hand_over(std::span<const int> descriptors) = 0;
  // The Lent has no bytes: no CPU touches that memory.
  virtual Result<std::unique_ptr<Lent>> lend_device(const DeviceLoan& loan, Access access) = 0;

 protected:
  ~DeviceLink() = default;
};

}  // namespace verbena::fabric
