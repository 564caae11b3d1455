// Memory of GPUs. NVIDIA's driver (libcuda.so.1) and AMD's (HIP, libamdhip64.so) are loaded by dlopen on first use: no
// dependency at build time, and no cost where no device memory is used. Both fill one table of calls (cuda_calls.h),
// whose names and numbers are CUDA's.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace verbena::memory::cuda {

struct Calls;  // the driver's functions

// Whose driver.
enum class Platform : uint8_t { cuda = 1, rocm = 2 };
inline constexpr std::array platforms{Platform::cuda, Platform::rocm};
std::string_view to_string(Platform platform);  // "cuda", "rocm"

// What processes call a device: its UUID.
using DeviceName = std::array<std::byte, 16>;

// An allocation of a process as that process describes it to another one.
struct Exported {
  DeviceName device{};
  std::array<std::byte, 64> handle{};  // of cuIpcGetMemHandle
  uint64_t size = 0;
  Platform platform = Platform::cuda;
};

struct Fault {
  enum class Kind : uint8_t {
    absent,   // no driver, no device, or one that is too old
    refused,  // not this memory, stream or device
    failed,   // the driver's answer to a valid call
    late,     // the deadline has passed
    cancelled,
  };
  Kind kind = Kind::failed;
  std::string text = {};                  // "cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY"
  bool no_library = false;                // of `absent`: this machine does not have the driver's library
  std::optional<Platform> platform = {};  // of a driver that does not start (drivers()): whose
};
template <class T = void>
using Outcome = std::expected<T, Fault>;

struct DeviceFacts {
  int device = 0;
  std::string name = {};
  uint64_t bytes = 0;
  bool dma_buf = false;      // its memory can be exported as a dma-buf
  bool descriptors = false;  // allocations can be shared with another process as file descriptors
};

// The allocation that contains an address.
struct Allocation {
  int device = 0;
  uint64_t begin = 0, size = 0;
  uint64_t id = 0;  // of this allocation alone: a later one at the same address has another
};

// A driver of this process. Thread-safe.
class Driver {
 public:
  // Loads and initializes it on the first call; later calls return the same. In the child of a fork that came after
  // initialization it fails, as the driver itself would. TEST_VERBENA_CUDA_DRIVER and TEST_VERBENA_HIP_DRIVER name
  // another library, for tests.
  static Outcome<const Driver*> get(Platform platform = Platform::cuda);

  // Without loading one: whether this machine may have NVIDIA's or AMD's.
  static bool may_be_there();

  Platform platform() const { return platform_; }
  int version() const { return version_; }  // 12040: CUDA 12.4; 60241134: HIP 6.2
  const std::string& path() const { return path_; }
  std::string title() const;  // "libcuda.so.1, CUDA 12.4"
  Outcome<std::vector<DeviceFacts>> devices() const;
  // `refused`: no memory of a device, or managed memory, which any CPU may move at any time.
  Outcome<Allocation> allocation(uint64_t address) const;
  // The allocations that cover [address, address + size), in order. `refused` unless all are of one device.
  Outcome<std::vector<Allocation>> cover(uint64_t address, uint64_t size) const;

  Outcome<DeviceName> name_of(int device) const;
  // For another process. `failed`: the driver shares no such memory: that of its virtual memory API, for instance,
  // which cuda_physical.h shares.
  Outcome<Exported> share(const Allocation& allocation) const;

  const Calls& calls() const { return *calls_; }
  // The driver's name of a status, after the call's.
  Fault fault(const char* call, int status) const;

 private:
  explicit Driver(Platform platform);
  static Outcome<std::unique_ptr<Driver>> load(Platform platform);

  const Platform platform_;
  std::unique_ptr<const Calls> calls_;
  std::string path_;
  int version_ = 0;
};

// The drivers of this machine.
struct Drivers {
  std::vector<const Driver*> ready = {};
  std::vector<Fault> faults = {};  // of those that do not start

  // Those worth telling where it is not known which GPUs there are: of libraries that are there. One fault of all, if
  // no library is there.
  std::vector<Fault> told() const;
};
Drivers drivers();

// Copies between host memory and the memory of one device, in order, on a stream of its own. One thread at a time.
class Queue {
 public:
  static constexpr unsigned marks = 2;
  static Outcome<std::unique_ptr<Queue>> open(int device, Platform platform = Platform::cuda);
  // All copies have ended: wait() has said so.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  bool is_of(Platform platform, int device) const { return device_ == device && driver_.platform() == platform; }
  // Page-locks host memory for the device, so that its engine copies without the CPU. Until the queue's end.
  Outcome<> page_lock(MutableBytes memory);
  void unlock();

  // Queued; the memory belongs to the device until a later mark is reached.
  Outcome<> write(uint64_t to, Bytes from);
  Outcome<> read(MutableBytes into, uint64_t from);
  // Marks the end of the copies so far.
  Outcome<> mark(unsigned number);
  // Waits for a mark (at once if it was never set). `late`: the copies may still be running.
  Outcome<> wait(unsigned number, Deadline until) const;
  // Waits for the work that another stream has got so far, without holding up that stream or the device.
  Outcome<> wait_for_stream(uint64_t stream, Deadline until, const std::stop_token& stop) const;

 private:
  friend class DeviceCrc;  // launches its kernel on the stream (cuda_crc.h)
  friend class PageLock;   // for its device (cuda_lock.h)
  Queue(const Driver& driver, int device) : driver_(driver), device_(device) {}
  Outcome<> prepare();
  Outcome<> poll(void* event, const char* what, Deadline until, const std::stop_token& stop) const;

  const Driver& driver_;
  int device_;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* marks_[marks] = {};
  bool set_[marks] = {};
  void* foreign_ = nullptr;  // the mark on another stream
  void* locked_ = nullptr;
};

}  // namespace verbena::memory::cuda
