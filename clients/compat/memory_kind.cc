#include "memory_kind.h"

#include <dlfcn.h>

namespace verbena::compat {
namespace {

// Attributes 2 and 8 of cuPointerGetAttribute: the memory's type, and whether it is managed.
using PointerAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
PointerAttribute cuda_attribute() {
  static const auto found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver == nullptr ? nullptr : reinterpret_cast<PointerAttribute>(dlsym(driver, "cuPointerGetAttribute"));
  }();
  return found;
}

}  // namespace

MemoryKind memory_kind(const void* memory) {
  const auto attribute = cuda_attribute();
  if (attribute == nullptr) return MemoryKind::system;
  const auto address = reinterpret_cast<unsigned long long>(memory);
  unsigned type = 0;
  if (attribute(&type, 2, address) != 0) return MemoryKind::system;
  int managed = 0;
  if (attribute(&managed, 8, address) == 0 && managed != 0) return MemoryKind::cuda_managed;
  return type == 2 ? MemoryKind::cuda_device : type == 1 ? MemoryKind::system : MemoryKind::unknown;
}

}  // namespace verbena::compat
