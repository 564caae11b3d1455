// The devices of this machine for a server: allocations of other processes, mapped here, and copies between them and
// the arena. Each device has a thread, which alone calls the driver for it. A second thread watches the time: a device
// whose call or copy does not end is lost, and what waits for it fails. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "memory/cuda.h"

namespace verbena::memory::cuda {

class Device;  // with its thread

// How a copy ended.
enum class CopyEnd : uint8_t {
  done,
  failed,  // it touches neither side any more
  lost,    // it may still do so: host memory of the arena is kept aside (memory/aside.h) until it has ended
};

struct Copy {
  bool to_device = true;
  std::byte* host = nullptr;
  uint64_t at = 0;  // in the allocation
  size_t size = 0;
  std::function<void(CopyEnd)> ended = {};  // called once, on a thread of the devices: it must not block
  std::shared_ptr<const void> held = {};    // until the copy touches nothing any more; then before `ended`
};

// Physical memory of CUDA or HIP in another process, in order: each piece by a descriptor that came from it
// (cuda_physical.h).
struct Pieces {
  struct Piece {
    int descriptor = -1;
    uint64_t size = 0;
  };
  DeviceName device{};
  std::vector<Piece> pieces = {};
  std::shared_ptr<const void> open = {};  // the descriptors are, as long as this lives
  Platform platform = Platform::cuda;
};

// Memory of another process: an allocation, or pieces side by side. Unmapped by the device's thread after its last
// copy.
class Mapped : public std::enable_shared_from_this<Mapped> {
 public:
  // `pieces`: the sizes of mappings; none: an allocation that was opened by its IPC handle.
  Mapped(std::shared_ptr<Device> device, uint64_t address, uint64_t size, std::vector<uint64_t> pieces = {})
      : device_(std::move(device)), address_(address), size_(size), pieces_(std::move(pieces)) {}
  ~Mapped();
  Mapped(const Mapped&) = delete;

  uint64_t size() const { return size_; }
  // Queued; the caller has checked `at` and `size`.
  void copy(Copy copy);
  // `what` ends after the memory is unmapped, on the device's thread. Called before the memory is used.
  void hold(std::shared_ptr<const void> what) { held_ = std::move(what); }
  // Calls `then` after the unmapping of all that was given up before.
  std::function<void(std::function<void()> then)> fence() const;

 private:
  std::shared_ptr<Device> device_;
  uint64_t address_, size_;
  std::vector<uint64_t> pieces_;
  std::shared_ptr<const void> held_ = {};
};

class Devices {
 public:
  static void export_metrics();  // at a server's start, whether it has devices or not
  struct Options {
    std::chrono::milliseconds limit{5'000};  // of one call or copy
    // Memory of HIP by its IPC handles, too. HIP believes the size that the handle says, and no call tells the true
    // one: with another size in its handle, a client reaches what is beyond its memory.
    bool hip_handles = false;
  };
  // Starts a thread for each device and page-locks the arena for all of them, which takes long for a large arena.
  // `failed`: no driver shares memory between processes in a way that the options allow, or none page-locks the arena.
  // A driver that fails is passed over if another one does not: the log says why.
  static Outcome<std::unique_ptr<Devices>> open(Arena& arena, Options options);
  ~Devices();
  Devices(const Devices&) = delete;

  // Ends the threads. Copies and mappings that wait fail; `ended` is not called after this. Bounded in time. False: a
  // device does not answer, or failed during copies: its driver may still use the arena.
  bool stop();

  Arena& arena() { return arena_; }
  // `refused`: no such device, not the driver's handle, or less memory than it says. `failed`: takes_handles() is
  // false, or the device is lost. `mapped` is called once.
  using WhenMapped = std::function<void(Outcome<std::shared_ptr<Mapped>> mapped)>;
  void map(const Exported& allocation, WhenMapped mapped);
  // Also if the driver maps no descriptors: `refused`.
  void map(const Pieces& pieces, WhenMapped mapped);
  bool maps_pieces(Platform platform) const;
  bool takes_handles(Platform platform) const;
  size_t lost() const;

 private:
  Devices(Arena& arena, const Options& options) : arena_(arena), hip_handles_(options.hip_handles) {}
  bool wants_handles(Platform platform) const { return platform != Platform::rocm || hip_handles_; }
  // All devices of a driver, or none.
  Outcome<> add(const Driver& driver, const Options& options);
  // Null, once `mapped` has been told that there is no such device.
  Device* find(Platform platform, const DeviceName& name, const WhenMapped& mapped) const;

  struct OfDriver {
    Platform platform;
    bool maps_pieces = false;
    std::vector<std::shared_ptr<Device>> devices;  // the first one has page-locked the arena for all of them
  };
  Arena& arena_;
  const bool hip_handles_;
  bool stuck_ = false;  // a device of a driver that was passed over
  std::vector<OfDriver> drivers_;
};

}  // namespace verbena::memory::cuda
