#include "device_windows.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "device_memory.h"

namespace verbena::compat {

Block::Block(const DeviceDriver& driver, void* context, size_t size) : driver_(driver), context_(context), size_(size) {
  memory_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  // Else the driver copies through memory of its own: slower, and as right.
  constexpr unsigned for_all_contexts = 1;
  const Current current(driver_, context_);
  locked_ = current && driver_.lock(memory_, size_, for_all_contexts) == 0;
}

Block::~Block() {
  if (locked_) {
    const Current current(driver_, context_);
    driver_.unlock(memory_);
  }
  munmap(memory_, size_);
}

void DeviceWindows::pin(void* memory, size_t size) {
  const DeviceDriver* const driver = device_driver();
  if (driver == nullptr || !driver->copies()) throw FabricFault("the GPU's driver is too old");
  if (memory == nullptr || size == 0) throw FabricFault("no memory to register");
  const int device = span_of(*driver, reinterpret_cast<uint64_t>(memory), size).device;
  void* const context = context_of(*driver, device);
  const std::lock_guard lock(mutex_);
  const auto [there, fresh] = pins_.add(memory, Pin{.size = size, .context = context});
  if (!fresh && size > there->second.size) throw FabricFault("registered already, and shorter");
}

bool DeviceWindows::drop(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto there = pins_.find(memory);
  if (there == pins_.end()) return false;
  pins_.erase(there);
  return true;
}

bool DeviceWindows::holds(void* memory, size_t offset, size_t size) {
  const std::lock_guard lock(mutex_);
  return pins_.holding(memory, offset, size) != pins_.end();
}

size_t DeviceWindows::pinned_from(void* memory) {
  const std::lock_guard lock(mutex_);
  return pins_.reach(memory);
}

void* DeviceWindows::context_at(void* memory, size_t offset, size_t size) {
  const std::lock_guard lock(mutex_);
  const auto there = pins_.holding(memory, offset, size);
  if (there == pins_.end()) throw FabricFault(pins_.refusal(memory));
  return there->second.context;
}

// A large block is used once: no more than it needs.
std::unique_ptr<Block> DeviceWindows::take(void* context, size_t size) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const auto& one) { return one->context() == context && one->size() >= size; };
    const auto spare = std::find_if(spare_.begin(), spare_.end(), fits);
    if (spare != spare_.end()) {
      auto block = std::move(*spare);
      spare_.erase(spare);
      kept_ -= block->size();
      return block;
    }
  }
  const size_t whole = size > kept_max ? (size + least - 1) / least * least : std::bit_ceil(std::max(size, least));
  return std::make_unique<Block>(*device_driver(), context, whole);
}

void DeviceWindows::give_back(std::unique_ptr<Block> block) {
  const std::lock_guard lock(mutex_);
  if (block->size() > kept_max - kept_) return;
  kept_ += block->size();
  spare_.push_back(std::move(block));
}

DeviceWindows::Loan DeviceWindows::lend(void* memory, size_t offset, size_t size, Direction direction) {
  Loan loan{.block = take(context_at(memory, offset, size), size),
            .registration = {},
            .token = {},
            .memory = static_cast<char*>(memory) + offset,
            .size = size,
            .direction = direction};
  if (direction == Direction::from_device && !copy(*loan.block, loan.memory, size, direction)) {
    throw FabricFault("the GPU's driver does not copy");
  }
  void* const lent = loan.block->memory();
  loan.registration = std::make_unique<Registration>(lender_, lent, size);
  loan.token = lender_.token(lent, size, 0);
  return loan;
}

// From now on no server reaches the block, which other transfers use next.
bool DeviceWindows::settle(Loan loan, size_t moved) {
  loan.registration.reset();
  if (loan.direction == Direction::to_device && !copy(*loan.block, loan.memory, moved, loan.direction)) return false;
  if (moved == loan.size) give_back(std::move(loan.block));
  return true;
}

bool DeviceWindows::copy(const Block& block, void* memory, size_t size, Direction direction) {
  if (size == 0) return true;
  const DeviceDriver& driver = *device_driver();
  const auto address = reinterpret_cast<uint64_t>(memory);
  const Current current(driver, block.context());
  if (!current) return false;
  const int status = direction == Direction::to_device ? driver.to_device(address, block.memory(), size)
                                                       : driver.to_host(block.memory(), address, size);
  return status == 0 && driver.finish(nullptr) == 0;
}

}  // namespace verbena::compat
