#include "memory_kind.h"

#include "device_driver.h"

namespace verbena::compat {

MemoryKind memory_kind(const void* memory) {
  const DeviceDriver* const driver = device_driver();
  if (driver == nullptr) return MemoryKind::system;
  constexpr int its_type = 2, is_managed = 8;
  const auto address = reinterpret_cast<uint64_t>(memory);
  unsigned type = 0;
  if (driver->attribute(&type, its_type, address) != 0) return MemoryKind::system;
  int managed = 0;
  if (driver->attribute(&managed, is_managed, address) == 0 && managed != 0) return MemoryKind::cuda_managed;
  return type == 2 ? MemoryKind::cuda_device : type == 1 ? MemoryKind::system : MemoryKind::unknown;
}

}  // namespace verbena::compat
