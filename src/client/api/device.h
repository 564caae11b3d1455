// Device memory as a window: what is known of it, and the lanes through which its bytes go.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client/forks.h"
#include "client/native/session.h"
#include "client/outcome.h"
#include "client/peer_memory.h"
#include "memory/cuda.h"
#include "memory/cuda_crc.h"
#include "memory/cuda_lock.h"

namespace verbena::client {

std::unexpected<ClientError> fault(memory::cuda::Fault fault);

class NativeDevice;

// A window's memory as another process could map it: the driver is asked when that is needed first. Thread-safe.
class DeviceExport {
 public:
  ~DeviceExport();
  // Null: the driver shares no such memory, and why() says why not.
  const NativeDevice* find(memory::cuda::Platform platform, const std::vector<memory::cuda::Allocation>& allocations);
  const std::string& why() const { return why_; }

 private:
  void ask(memory::cuda::Platform platform, const std::vector<memory::cuda::Allocation>& allocations);

  const uint64_t forks_ = client::forks();
  std::mutex mutex_;
  bool asked_ = false;
  std::string why_;  // does not change after find()
  std::shared_ptr<NativeDevice> device_;
};

// The same for RDMA devices of this host, of which each request's link registers what it lends. Thread-safe.
class DevicePeer {
 public:
  explicit DevicePeer(memory::cuda::GivenDmaBuf given = {}) : given_(std::move(given)) {}
  ~DevicePeer();
  // Null: the driver exports no such memory, or a link of that provider has refused it a short while ago; `why` says
  // so. `window`: addresses of the device.
  const NativeMemory* find(memory::cuda::Platform platform, const std::vector<memory::cuda::Allocation>& allocations,
                           MutableBytes window, std::string_view provider, std::string& why);

 private:
  const uint64_t forks_ = client::forks();
  std::mutex mutex_;
  bool asked_ = false;
  std::string why_;
  memory::cuda::GivenDmaBuf given_;  // its descriptor until memory_ has it
  std::shared_ptr<NativeMemory> memory_;
};

// Why a window does not go the way `direct` to a server on this host that has no such device.
std::string server_shares_none(memory::cuda::Platform platform);

// A window as a door's server reaches it without this process's copies. No memory: it does not.
struct DeviceWay {
  const NativeMemory* memory = nullptr;
  DevicePath path = DevicePath::none;
};

// A registered window in a device's memory.
struct DeviceMemory {
  memory::cuda::Platform platform = memory::cuda::Platform::cuda;
  int device = 0;
  MutableBytes window = {};                                // addresses of the device
  std::vector<memory::cuda::Allocation> allocations = {};  // in order
  bool read_only = false;
  std::optional<uint64_t> stream = {};
  std::shared_ptr<DeviceExport> exported = std::make_shared<DeviceExport>();
  std::shared_ptr<DevicePeer> peer = std::make_shared<DevicePeer>();
};

// invalid_argument, unsupported, local_error.
Outcome<DeviceMemory> device_memory(const DeviceBuffer& given);
// invalid_argument: [address, address + size) is not what was registered any more.
Outcome<> device_memory_is_there(const DeviceMemory& memory, uint64_t address, size_t size);

// Host memory, page-locked for a device, and the queue that copies from and to it: two halves, of which one is filled
// while the device copies the other.
struct DeviceLane {
  static constexpr size_t half = 4 * MiB;

  Buffer ring;
  Buffer large = {};                                     // of bytes that do not fit the ring
  std::unique_ptr<memory::cuda::PageLock> large_lock{};  // null: the driver does not page-lock it
  MutableBytes bytes;
  const NativeMemory* native = nullptr;        // the ring is shared with a server
  std::weak_ptr<NativeSession> session{};      // which has it
  std::unique_ptr<memory::cuda::Queue> queue;  // ends before the memory does
  // Of the algorithms that were needed (device_sums.h). They end before the queue does.
  std::vector<std::unique_ptr<memory::cuda::DeviceCrc>> kernels = {};
  bool no_kernel = false;  // the driver has refused one

  MutableBytes part(unsigned number) const { return bytes.subspan(number * half, half); }
};

// What is to be said of both.
DeviceVerified weaker(DeviceVerified a, DeviceVerified b);

// The way of a transfer through that lane.
DevicePath device_path(const DeviceLane& lane, const Transfer& transfer);

// Lanes that are not in use, by device. Thread-safe.
class DeviceLanes {
 public:
  // A lane for the memory's device whose ring belongs to `session` (which may be null); null: none is there.
  // local_error: too many were given up.
  Outcome<std::unique_ptr<DeviceLane>> take(const DeviceMemory& memory, const std::shared_ptr<NativeSession>& session);
  void give_back(std::unique_ptr<DeviceLane> lane);
  // Never frees it.
  void give_up(std::unique_ptr<DeviceLane> lane);

 private:
  static constexpr size_t spare_max = 8, given_up_max = 8;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceLane>> spare_;
  size_t given_up_ = 0;
};

// A lane in the use of one call. Its end waits for the copies; those of a device that does not answer may go on, so
// that the lane's memory is then never freed nor used again.
class DeviceCopies {
 public:
  DeviceCopies(DeviceLanes& lanes, std::unique_ptr<DeviceLane> lane, std::chrono::milliseconds limit)
      : lanes_(lanes), lane_(std::move(lane)), limit_(limit) {}
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  DeviceLane& lane() { return *lane_; }
  std::chrono::milliseconds limit() const { return limit_; }  // of what it waits for
  // What the window's own stream has got so far comes first.
  Outcome<> after(const DeviceMemory& memory, const std::stop_token& stop);
  Outcome<> write(uint64_t to, Bytes from);
  Outcome<> read(MutableBytes into, uint64_t from);
  // Memory beside the ring, page-locked if the driver does that. Copies with earlier one have ended.
  // timed_out: the driver does not answer.
  Outcome<> enlarge(Buffer memory, const std::stop_token& stop);
  // Between that memory and a device: in pieces with a limit of time for each. No other copies are in progress.
  Outcome<> write_large(uint64_t to, Bytes from);
  Outcome<> read_large(MutableBytes into, uint64_t from);
  Outcome<> mark(unsigned half);
  // The copies of this half have ended.
  Outcome<> wait(unsigned half);
  // All copies have ended. A lane that failed is not used again.
  Outcome<> finish();

 private:
  template <class Copy>
  Outcome<> in_pieces(size_t size, Copy copy);
  void end_large();

  DeviceLanes& lanes_;
  std::unique_ptr<DeviceLane> lane_;
  std::chrono::milliseconds limit_;
  bool busy_ = false;    // copies were queued since the last finish()
  bool failed_ = false;  // the driver refused something: the lane is not kept
};

}  // namespace verbena::client
