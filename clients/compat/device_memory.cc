#include "device_memory.h"

#include "rail.h"

namespace verbena::compat {
namespace {

DeviceSpan find_allocation(const DeviceDriver& driver, uint64_t address) {
  constexpr int its_device = 9, range_begin = 11, range_size = 12;
  DeviceSpan found;
  size_t size = 0;
  const bool known = driver.attribute(&found.device, its_device, address) == 0 &&
                     driver.attribute(&found.begin, range_begin, address) == 0 &&
                     driver.attribute(&size, range_size, address) == 0;
  if (!known || address < found.begin || address - found.begin >= size) {
    throw FabricFault("this is no memory of a device");
  }
  found.end = found.begin + size;
  found.begins = {found.begin};
  return found;
}

}  // namespace

DeviceSpan span_of(const DeviceDriver& driver, uint64_t address, size_t size) {
  if (size > UINT64_MAX - address) throw FabricFault("the memory wraps");
  DeviceSpan span = find_allocation(driver, address);
  while (span.end < address + size) {
    const DeviceSpan next = find_allocation(driver, span.end);
    if (next.device != span.device) throw FabricFault("the memory reaches beyond its allocation");
    span.begins.push_back(next.begin);
    span.end = next.end;
  }
  return span;
}

void* context_of(const DeviceDriver& driver, int ordinal) {
  int device = 0;
  void* context = nullptr;
  if (driver.device(&device, ordinal) != 0 || driver.context(&context, device) != 0) {
    throw FabricFault("the GPU's driver gives no context");
  }
  return context;
}

}  // namespace verbena::compat
