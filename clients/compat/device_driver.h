// NVIDIA's driver, as far as these libraries use it: loaded on first use, if it is there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::compat {

// Numbers and signatures are those of cuda.h. A call's result is 0 if it succeeds.
struct DeviceDriver {
  int (*attribute)(void* value, int attribute, uint64_t address);
  // The rest is null in a driver that lacks one of them.
  int (*device)(int* device, int ordinal);
  int (*context)(void** context, int device);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*to_device)(uint64_t to, const void* from, size_t size);
  int (*to_host)(void* to, uint64_t from, size_t size);
  int (*finish)(void* stream);
  int (*lock)(void* memory, size_t size, unsigned flags);
  int (*unlock)(void* memory);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*set_attribute)(const void* value, int attribute, uint64_t address);
  int (*version)(int* version);
  int (*export_range)(void* handle, uint64_t address, size_t size, int kind, unsigned long long flags);
  bool exports() const {
    return device != nullptr && context != nullptr && push != nullptr && pop != nullptr &&
           device_attribute != nullptr && set_attribute != nullptr && version != nullptr && export_range != nullptr;
  }
  bool copies() const {
    return device != nullptr && context != nullptr && push != nullptr && pop != nullptr && to_device != nullptr &&
           to_host != nullptr && finish != nullptr && lock != nullptr && unlock != nullptr;
  }
};

// Null: there is none. TEST_VERBENA_CUDA_DRIVER names another library, for tests.
const DeviceDriver* device_driver();

}  // namespace verbena::compat
