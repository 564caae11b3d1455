#include "device_export.h"

#include <unistd.h>

#include <algorithm>

#include "device_memory.h"
#include "rail.h"

namespace verbena::compat {
namespace {

// Attributes and values of cuda.h.
constexpr int write_order = 118, has_dma_buf = 124;
constexpr int order_for_owner = 100;
constexpr int sync_memops = 6;
constexpr int as_dma_buf = 1;
constexpr unsigned long long over_pcie = 1;
constexpr int version_of_over_pcie = 12'080;
// RDMA devices map a GPU's memory in pages of this size; less is exported where the allocation is smaller.
constexpr uint64_t device_page = 65536;

uint64_t down(uint64_t address, uint64_t page) { return address / page * page; }
uint64_t up(uint64_t address, uint64_t page) { return down(address + page - 1, page); }

int attribute_of(const DeviceDriver& driver, int ordinal, int attribute) {
  int device = 0, value = 0;
  if (driver.device(&device, ordinal) != 0) return 0;
  return driver.device_attribute(&value, attribute, device) == 0 ? value : 0;
}

}  // namespace

DeviceExport::DeviceExport(void* memory, size_t size) {
  const DeviceDriver* const driver = device_driver();
  if (driver == nullptr || !driver->exports()) throw FabricFault("the GPU's driver exports no memory");
  const auto address = reinterpret_cast<uint64_t>(memory);
  const DeviceSpan span = span_of(*driver, address, size);
  device_ = span.device;
  if (attribute_of(*driver, device_, has_dma_buf) == 0) throw FabricFault("the GPU's driver exports no dma-buf");
  if (attribute_of(*driver, device_, write_order) < order_for_owner) {
    throw FabricFault("the GPU does not order writes of other devices");
  }
  const Current current(*driver, context_of(*driver, device_));
  if (!current) throw FabricFault("the GPU's driver gives no context");
  // Asynchronous copies that a program takes for synchronous ones end before an RDMA device reads.
  constexpr int yes = 1;
  for (const uint64_t begin : span.begins) driver->set_attribute(&yes, sync_memops, begin);
  const auto host_page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  int version = 0;
  const bool has_flag = driver->version(&version) == 0 && version >= version_of_over_pcie;
  for (const uint64_t page : {device_page, host_page}) {
    begin_ = std::max(down(address, page), down(span.begin, host_page));
    const uint64_t end = std::min(up(address + size, page), up(span.end, host_page));
    // Most platforms have PCIe alone, and refuse to be asked for it.
    const auto ask = [&](unsigned long long flags) {
      return driver->export_range(&descriptor_, begin_, end - begin_, as_dma_buf, flags) == 0;
    };
    if ((has_flag && ask(over_pcie)) || ask(0)) return;
  }
  throw FabricFault("the GPU's driver does not export this memory");
}

DeviceExport::~DeviceExport() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace verbena::compat
