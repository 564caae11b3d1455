// The double's memory for other devices: exported as a dma-buf, which here is a descriptor of the file with its bytes
// whose position is the first exported one, so that it can be mapped without the device's address.
#include "double.h"
#include "double_world.h"

using namespace cuda_double;

namespace {

constexpr int as_dma_buf = 1, not_supported = 801;
constexpr unsigned long long through_pcie = 1;

int memfd_of(const Allocation& one) { return one.physical != nullptr ? one.physical->memfd : one.memfd; }

// Opened anew: a copy of the descriptor would share its position.
int opened_anew(const Allocation& one) {
  return ::open(("/proc/self/fd/" + std::to_string(memfd_of(one))).c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

extern "C" {

int cuMemGetHandleForAddressRange(void* into, uint64_t address, size_t size, int type, unsigned long long flags) {
  const int status = enter_here("cuMemGetHandleForAddressRange");
  if (status != ok) return status;
  if (type != as_dma_buf || size == 0 || address % page != 0 || size % page != 0) return invalid_value;
  if (flags != 0 && (flags != through_pcie || !world().over_pcie)) return not_supported;
  std::lock_guard lock(world().mutex);
  uint64_t begin = 0;
  const Allocation* const one = find(address, 1, &begin);
  if (one == nullptr || one->managed || memfd_of(*one) < 0) return invalid_value;
  const uint64_t whole = (one->size + page - 1) / page * page;
  if (address - begin > whole || size > whole - (address - begin)) return invalid_value;
  const int descriptor = opened_anew(*one);
  if (descriptor < 0) return out_of_memory;
  if (::lseek(descriptor, static_cast<off_t>(address - begin), SEEK_SET) < 0) return out_of_memory;
  *static_cast<int*>(into) = descriptor;
  return ok;
}
int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  const int status = enter_here("cuFlushGPUDirectRDMAWrites");
  if (status != ok) return status;
  if (target != 0 || (scope != 100 && scope != 200)) return invalid_value;
  return (world().flush_options & 1) != 0 ? ok : not_supported;
}
int cuPointerSetAttribute(const void* value, int attribute, uint64_t address) {
  const int status = enter_here("cuPointerSetAttribute");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const Allocation* const one = find(address, 1);
  return attribute == 6 && value != nullptr && one != nullptr && one->physical == nullptr ? ok : invalid_value;
}

int double_dma_buf(uint64_t address) {
  std::lock_guard lock(world().mutex);
  const Allocation* const one = find(address, 1);
  return one == nullptr || memfd_of(*one) < 0 ? -1 : opened_anew(*one);
}
void double_peer_writes(int order, int flush_options) {
  world().write_order = order;
  world().flush_options = flush_options;
}
void double_over_pcie(bool possible) { world().over_pcie = possible; }
void* double_peer_bytes(uint64_t address, size_t size) {
  std::lock_guard lock(world().mutex);
  uint64_t begin = 0;
  const Allocation* const one = find(address, size, &begin);
  return one == nullptr ? nullptr : one->bytes + (address - begin);
}
}
