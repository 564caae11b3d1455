// The functions of NVIDIA's driver that this project calls, declared here: no header of CUDA is needed to build.
// Numbers and signatures are those of cuda.h (CUDA driver API, 11.0 and later).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::memory::cuda {

enum Status : int {
  success = 0,
  invalid_value = 1,
  not_initialized = 3,
  no_device = 100,
  not_ready = 600,
};
enum PointerAttribute : int {
  pointer_memory_type = 2,
  pointer_sync_memops = 6,
  pointer_buffer_id = 7,
  pointer_is_managed = 8,
  pointer_device_ordinal = 9,
  pointer_range_start = 11,
  pointer_range_size = 12,
};
enum DeviceAttribute : int {
  device_descriptors = 103,
  device_flush_options = 117,
  device_write_order = 118,
  device_dma_buf = 124
};
// Writes of other devices (GPUDirect RDMA): the host can flush them; how the device orders them, and for whom.
inline constexpr int flush_by_host = 1, order_for_owner = 100;
inline constexpr int flush_current_context = 0, flush_for_owner = 100;
inline constexpr unsigned memory_type_device = 2;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_without_timing = 2;
inline constexpr int version_min = 11'000;
inline constexpr int hip_version_min = 50'000'000;  // of AMD's driver (hip.h): 5.0
inline constexpr int hip_version_of_physical = 71'400'000;

// What cuIpcGetMemHandle gives: opaque, and passed by value.
struct IpcHandle {
  char bytes[64];
};
struct Uuid {
  char bytes[16];
};
inline constexpr unsigned ipc_lazy_peer_access = 1;

// Virtual memory management: physical memory (CUmemGenericAllocationHandle) that is mapped at reserved addresses.
inline constexpr int handle_is_descriptor = 1;
inline constexpr int location_device = 1, memory_pinned = 1, access_both = 3;
struct Location {
  int type = 0, id = 0;
};
struct PhysicalFacts {  // CUmemAllocationProp
  int type = 0;
  int handle_types = 0;
  Location location;
  void* metadata = nullptr;
  unsigned char flags[8] = {};
};
static_assert(sizeof(PhysicalFacts) == 32);
// Of cuMemGetHandleForAddressRange: a dma-buf, and its mapping through PCIe where the device has another link, too.
inline constexpr int range_as_dma_buf = 1;
inline constexpr unsigned long long range_over_pcie = 1;
inline constexpr int version_of_range_over_pcie = 12'080;
struct AccessWish {  // CUmemAccessDesc
  Location location;
  int flags = 0;
};
static_assert(sizeof(AccessWish) == 12);

// Contexts, streams and events are pointers to the driver's own types. A device's address is a number.
struct Calls {
  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*error_name)(int status, const char** name);
  int (*device_count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*device_name)(char* name, int size, int device);
  int (*device_bytes)(size_t* bytes, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*primary_context)(void** context, int device);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*pointer_attribute)(void* value, int attribute, uint64_t address);
  int (*host_register)(void* memory, size_t size, unsigned flags);
  int (*host_unregister)(void* memory);
  int (*stream_create)(void** stream, unsigned flags);
  int (*stream_destroy)(void* stream);
  int (*stream_capturing)(void* stream, int* state);
  int (*event_create)(void** event, unsigned flags);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);
  int (*to_device)(uint64_t to, const void* from, size_t size, void* stream);
  int (*to_host)(void* to, uint64_t from, size_t size, void* stream);
  // Memory of one process in another. Null in a library without them.
  int (*device_uuid)(Uuid* uuid, int device);
  int (*address_range)(uint64_t* begin, size_t* size, uint64_t address);
  int (*ipc_export)(IpcHandle* handle, uint64_t address);
  int (*ipc_open)(uint64_t* address, IpcHandle handle, unsigned flags);
  int (*ipc_close)(uint64_t address);
  int (*physical_behind)(uint64_t* handle, void* address);
  int (*physical_release)(uint64_t handle);
  int (*physical_facts)(PhysicalFacts* facts, uint64_t handle);
  int (*physical_export)(void* into, uint64_t handle, int type, unsigned long long flags);
  int (*physical_import)(uint64_t* handle, void* from, int type);
  int (*reserve)(uint64_t* address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags);
  int (*unreserve)(uint64_t address, size_t size);
  int (*map)(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
  int (*unmap)(uint64_t address, size_t size);
  int (*set_access)(uint64_t address, size_t size, const AccessWish* wishes, size_t count);
  // Memory of a device for other devices of this host. Null in a library without them.
  int (*range_handle)(void* into, uint64_t address, size_t size, int type, unsigned long long flags);
  // In place of that, where a dma-buf holds more than the range: the range begins `offset` bytes behind its first one.
  int (*range_in_buffer)(int* descriptor, uint64_t* offset, uint64_t address, size_t size);
  int (*flush_writes)(int target, int scope);
  int (*set_pointer_attribute)(const void* value, int attribute, uint64_t address);
  // The driver's own name of a call that is named as CUDA names it. Null: they are the same.
  const char* (*own_name)(const char* call);
  bool shares() const {
    return device_uuid != nullptr && address_range != nullptr && ipc_export != nullptr && ipc_open != nullptr &&
           ipc_close != nullptr;
  }
  // By descriptors of physical memory, besides.
  bool shares_physical() const {
    return physical_behind != nullptr && physical_release != nullptr && physical_facts != nullptr &&
           physical_export != nullptr && physical_import != nullptr && reserve != nullptr && unreserve != nullptr &&
           map != nullptr && unmap != nullptr && set_access != nullptr;
  }
};

}  // namespace verbena::memory::cuda
