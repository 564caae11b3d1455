// Memory of GPUs that a program has registered. Its bytes pass through page-locked host memory, which is lent in its
// place; the driver copies. May be called from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_driver.h"
#include "lender.h"
#include "registrations.h"

namespace verbena::compat {

// Host memory, page-locked if the driver does so.
class Block {
 public:
  // Throws std::bad_alloc.
  Block(const DeviceDriver& driver, void* context, size_t size);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* memory() const { return memory_; }
  size_t size() const { return size_; }
  void* context() const { return context_; }

 private:
  const DeviceDriver& driver_;
  void* context_;
  size_t size_;
  void* memory_ = nullptr;
  bool locked_ = false;
};

// Memory of a block that is registered on every rail, for one transfer: tokens of it end with this.
class Registration {
 public:
  // Throws FabricFault.
  Registration(Lender& lender, void* memory, size_t size) : lender_(lender), memory_(memory) {
    lender_.pin(memory_, size);
  }
  ~Registration() { lender_.drop(memory_); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  Lender& lender_;
  void* memory_;
};

class DeviceWindows {
 public:
  explicit DeviceWindows(Lender& lender) : lender_(lender) {}

  // Throws FabricFault: not all of it is memory of that device, or it is registered already, and shorter.
  void pin(void* memory, size_t size);
  bool drop(void* memory);
  // The registered bytes from `memory` on; 0 if it is not registered here.
  size_t pinned_from(void* memory);
  // Whether the `size` bytes at `offset` from `memory` are registered here.
  bool holds(void* memory, size_t offset, size_t size);

  enum class Direction { to_device, from_device };
  // Host memory in place of [memory, memory + size), for one transfer.
  struct Loan {
    std::unique_ptr<Block> block;
    std::unique_ptr<Registration> registration;
    std::string token;
    void* memory = nullptr;
    size_t size = 0;
    Direction direction = Direction::to_device;
  };
  // For `size` bytes at `offset` from `memory`: holds() says whether they are registered. Throws FabricFault, also if
  // the driver refuses the copy from the device, or std::bad_alloc. A loan that is not settled, or not of all its
  // bytes, ends with its memory: the transfer may still be under way.
  Loan lend(void* memory, size_t offset, size_t size, Direction direction);
  // After a transfer of `moved` bytes. False: the driver refuses the copy to the device.
  bool settle(Loan loan, size_t moved);

 private:
  static constexpr size_t least = size_t{1} << 20, kept_max = size_t{64} << 20;
  struct Pin {
    size_t size = 0;
    void* context = nullptr;
  };
  void* context_at(void* memory, size_t offset, size_t size);
  std::unique_ptr<Block> take(void* context, size_t size);
  void give_back(std::unique_ptr<Block> block);
  static bool copy(const Block& block, void* memory, size_t size, Direction direction);

  Lender& lender_;
  std::mutex mutex_;
  Registrations<Pin> pins_;
  std::vector<std::unique_ptr<Block>> spare_;
  size_t kept_ = 0;  // bytes of those
};

}  // namespace verbena::compat
