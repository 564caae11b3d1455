// The server's end of a window in a device's memory: the device copies, and the core goes on meanwhile.
#pragma once

#include <memory>

#include "fabric/fabric.h"
#include "fabric/local/window.h"
#include "memory/cuda_devices.h"

namespace verbena::fabric::local {

class DeviceWindow final : public Window {
 public:
  // The caller checked that base and size lie inside `memory`.
  DeviceWindow(std::shared_ptr<PeerMemory> peer, std::shared_ptr<memory::cuda::Mapped> memory, memory::Arena& arena,
               const WindowDescriptor& lent, Access access);

  uint64_t size() const override { return size_; }
  // The time of a copy is limited by the device's own limit: `deadline` decides whether it begins.
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override;
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override;

 private:
  class Use;
  Result<void> check(Access wanted, size_t size, uint64_t at, Deadline deadline) const;
  Result<std::shared_ptr<const void>> begin();
  Task<Result<void>> copy(std::byte* host, size_t size, uint64_t at);
  Task<Result<void>> write_from_outside(Bytes from, uint64_t at);
  Task<Result<void>> read_to_outside(MutableBytes into, uint64_t at);

  const std::shared_ptr<PeerMemory> peer_;
  const std::shared_ptr<memory::cuda::Mapped> memory_;
  memory::Arena& arena_;
  const uint64_t base_, size_;
  const WindowKey key_;
  const Access access_;
};

}  // namespace verbena::fabric::local
