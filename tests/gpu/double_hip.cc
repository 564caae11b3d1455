// The double with the names of AMD's driver (hip_runtime_api.h, ROCm 6), beside those of double.cc, to which it passes
// calls on: each is counted, and made to fail, by both names. What HIP does otherwise is here.
#include <unistd.h>

#include <utility>

#include "double.h"
#include "double_world.h"

using namespace cuda_double;

extern "C" {
int cuInit(unsigned flags);
int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetName(char* name, int size, int device);
int cuDeviceTotalMem_v2(size_t* bytes, int device);
int cuDeviceGetUuid(void* uuid, int device);
int cuPointerGetAttribute(void* value, int attribute, uint64_t address);
int cuMemHostRegister_v2(void* memory, size_t size, unsigned flags);
int cuMemHostUnregister(void* memory);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamIsCapturing(void* stream, int* state);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);
int cuEventRecord(void* event, void* stream);
int cuEventQuery(void* event);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, void* stream);
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream);
int cuIpcGetMemHandle(HandleBytes* bytes, uint64_t address);
int cuIpcOpenMemHandle_v2(uint64_t* address, HandleBytes bytes, unsigned flags);
int cuIpcCloseMemHandle(uint64_t address);
int cuMemAlloc_v2(uint64_t* address, size_t size);
int cuMemFree_v2(uint64_t address);
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t size);
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size);
int cuStreamSynchronize(void* stream);
int cuMemCreate(uint64_t* handle, size_t size, const void* properties, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemRetainAllocationHandle(uint64_t* handle, void* address);
int cuMemGetAllocationPropertiesFromHandle(void* properties, uint64_t handle);
int cuMemExportToShareableHandle(void* into, uint64_t handle, int type, unsigned long long flags);
int cuMemImportFromShareableHandle(uint64_t* handle, void* from, int type);
int cuMemAddressReserve(uint64_t* address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags);
int cuMemAddressFree(uint64_t address, size_t size);
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t size);
int cuMemSetAccess(uint64_t address, size_t size, const void* wishes, size_t count);
int cuMemGetHandleForAddressRange(void* into, uint64_t address, size_t size, int type, unsigned long long flags);
int cuFlushGPUDirectRDMAWrites(int target, int scope);
int cuPointerSetAttribute(const void* value, int attribute, uint64_t address);
}
namespace {

constexpr int not_found = 500;
constexpr unsigned release_to_system = 0x8000'0000;

thread_local int current = 0;
thread_local int last = ok;
std::atomic<int> version{71'400'000};  // 7.14
std::atomic<bool> nameless{false}, exports_dma_bufs{true};

int settled(int status) {
  if (status != ok) last = status;
  return status;
}

// On the thread's device, as CUDA has it in a context.
template <class Fn>
int on_device(const char* call, Fn fn) {
  int status = enter(call);
  if (status != ok) return settled(status);
  stack.push_back(&world().contexts[current]);
  status = fn();
  stack.pop_back();
  return settled(status);
}

bool is_device(int device) { return device >= 0 && device < devices; }

// In one allocation: HIP compares with the size of that. Pieces of physical memory belong to one reservation.
bool in_one(uint64_t address, size_t size) {
  const std::lock_guard lock(world().mutex);
  const Allocation* const one = find(address, 1);
  return one != nullptr && (one->physical != nullptr || find(address, size) != nullptr);
}

// One of the calls of the virtual memory API.
template <class Fn>
int on_physical(const char* call, Fn fn) {
  const int status = enter(call);
  return settled(status != ok ? status : fn());
}

// Before ROCm 7.14 these crash, or give what is not the caller's.
void check_physical() {
  if (version < 71'400'000) ++world().misuse;
}

// Streams are pointers: before ROCm 6.2 CUDA's number of the default stream is none.
void check_stream(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) == 1) ++world().misuse;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void double_hip_version(int given) { version = given; }
void double_hip_nameless(bool without) { nameless = without; }
void double_hip_dma_bufs(bool supported) { exports_dma_bufs = supported; }

int hipInit(unsigned flags) {
  const int status = enter("hipInit");
  return settled(status != ok ? status : cuInit(flags));
}
int hipDriverGetVersion(int* into) {
  *into = version;
  return settled(enter("hipDriverGetVersion"));
}
const char* hipGetErrorName(int status) {
  static const std::map<int, const char*> names = {{invalid_value, "hipErrorInvalidValue"},
                                                   {out_of_memory, "hipErrorOutOfMemory"},
                                                   {3, "hipErrorNotInitialized"},
                                                   {100, "hipErrorNoDevice"},
                                                   {invalid_device, "hipErrorInvalidDevice"},
                                                   {invalid_context, "hipErrorInvalidContext"},
                                                   {uncorrectable, "hipErrorECCNotCorrectable"},
                                                   {invalid_handle, "hipErrorInvalidHandle"},
                                                   {not_found, "hipErrorNotFound"},
                                                   {not_ready, "hipErrorNotReady"},
                                                   {already_locked, "hipErrorHostMemoryAlreadyRegistered"},
                                                   {not_locked, "hipErrorHostMemoryNotRegistered"},
                                                   {801, "hipErrorNotSupported"}};
  const auto found = names.find(status);
  return found == names.end() ? "hipErrorUnknown" : found->second;
}
int hipGetLastError() { return std::exchange(last, ok); }
int hipPeekAtLastError() { return last; }
int hipGetDeviceCount(int* count) {
  const int status = enter("hipGetDeviceCount");
  return settled(status != ok ? status : cuDeviceGetCount(count));
}
int hipDeviceGet(int* device, int ordinal) {
  const int status = enter("hipDeviceGet");
  return settled(status != ok ? status : cuDeviceGet(device, ordinal));
}
int hipDeviceGetName(char* name, int size, int device) { return settled(cuDeviceGetName(name, size, device)); }
int hipDeviceTotalMem(size_t* bytes, int device) { return settled(cuDeviceTotalMem_v2(bytes, device)); }
int hipDeviceGetUuid(void* uuid, int device) {
  if (nameless) std::memcpy(uuid, "XX\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
  return settled(nameless ? enter("hipDeviceGetUuid") : cuDeviceGetUuid(uuid, device));
}
int hipGetDevice(int* device) {
  *device = current;
  return settled(enter("hipGetDevice"));
}
int hipSetDevice(int device) {
  const int status = enter("hipSetDevice");
  if (status == ok && is_device(device)) current = device;
  return settled(status != ok ? status : is_device(device) ? ok : invalid_device);
}

// As much of the value is written as HIP writes.
int hipPointerGetAttribute(void* value, int attribute, uint64_t address) {
  const int status = enter("hipPointerGetAttribute");
  if (status != ok) return settled(status);
  uint64_t whole = 0;
  const int got = cuPointerGetAttribute(&whole, attribute, address);
  switch (attribute) {
    case 2: {  // of managed memory: the host
      uint64_t managed = 0;
      if (got == ok) cuPointerGetAttribute(&managed, 8, address);
      const bool old = version < 60'000'000;
      *static_cast<uint32_t*>(value) = managed != 0 ? (old ? 0 : 1) : (old ? 1 : 2);
      break;
    }
    case 8:
      *static_cast<bool*>(value) = whole != 0;
      break;
    case 11:
      *static_cast<uint64_t*>(value) = whole;
      break;
    default:
      *static_cast<uint32_t*>(value) = static_cast<uint32_t>(whole);
  }
  return settled(got);
}
// What HIP knows itself, also of a device that is lost.
int hipMemGetAddressRange(uint64_t* begin, size_t* size, uint64_t address) {
  int status = enter("hipMemGetAddressRange");
  if (status == ok) status = enter("cuMemGetAddressRange_v2");
  if (status != ok) return settled(status);
  const std::lock_guard lock(world().mutex);
  const Allocation* const one = find(address, 1, begin);
  if (one != nullptr) *size = one->size;
  return settled(one != nullptr ? int{ok} : not_found);
}
int hipHostRegister(void* memory, size_t size, unsigned flags) {
  return on_device("hipHostRegister", [&] { return cuMemHostRegister_v2(memory, size, flags); });
}
int hipHostUnregister(void* memory) {
  return on_device("hipHostUnregister", [&] { return cuMemHostUnregister(memory); });
}
int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  return on_device("hipStreamCreateWithFlags", [&] { return cuStreamCreate(stream, flags); });
}
int hipStreamDestroy(void* stream) {
  return on_device("hipStreamDestroy", [&] { return cuStreamDestroy_v2(stream); });
}
int hipStreamIsCapturing(void* stream, int* state) {
  check_stream(stream);
  return on_device("hipStreamIsCapturing", [&] { return cuStreamIsCapturing(stream, state); });
}
int hipEventCreateWithFlags(void** event, unsigned flags) {
  if ((flags & release_to_system) == 0) ++world().misuse;  // what its stream has written stays in caches
  return on_device("hipEventCreateWithFlags", [&] { return cuEventCreate(event, flags); });
}
int hipEventDestroy(void* event) { return settled(cuEventDestroy_v2(event)); }
int hipEventRecord(void* event, void* stream) {
  check_stream(stream);
  return on_device("hipEventRecord", [&] { return cuEventRecord(event, stream); });
}
int hipEventQuery(void* event) {
  const int status = enter("hipEventQuery");
  return settled(status != ok ? status : cuEventQuery(event));
}
int hipMemcpyHtoDAsync(uint64_t to, void* from, size_t size, void* stream) {
  return on_device("hipMemcpyHtoDAsync",
                   [&] { return in_one(to, size) ? cuMemcpyHtoDAsync_v2(to, from, size, stream) : invalid_value; });
}
int hipMemcpyDtoHAsync(void* to, uint64_t from, size_t size, void* stream) {
  return on_device("hipMemcpyDtoHAsync",
                   [&] { return in_one(from, size) ? cuMemcpyDtoHAsync_v2(to, from, size, stream) : invalid_value; });
}
int hipIpcGetMemHandle(HandleBytes* bytes, uint64_t address) {
  return on_device("hipIpcGetMemHandle", [&] { return cuIpcGetMemHandle(bytes, address); });
}
int hipIpcOpenMemHandle(uint64_t* address, HandleBytes bytes, unsigned flags) {
  return on_device("hipIpcOpenMemHandle", [&] { return cuIpcOpenMemHandle_v2(address, bytes, flags); });
}
int hipIpcCloseMemHandle(uint64_t address) {
  return on_device("hipIpcCloseMemHandle", [&] { return cuIpcCloseMemHandle(address); });
}

int hipMemRelease(uint64_t handle) {
  return on_physical("hipMemRelease", [&] { return cuMemRelease(handle); });
}
int hipMemRetainAllocationHandle(uint64_t* handle, void* address) {
  check_physical();
  return on_physical("hipMemRetainAllocationHandle", [&] { return cuMemRetainAllocationHandle(handle, address); });
}
int hipMemGetAllocationPropertiesFromHandle(void* properties, uint64_t handle) {
  return on_physical("hipMemGetAllocationPropertiesFromHandle",
                     [&] { return cuMemGetAllocationPropertiesFromHandle(properties, handle); });
}
int hipMemExportToShareableHandle(void* into, uint64_t handle, int type, unsigned long long flags) {
  return on_physical("hipMemExportToShareableHandle",
                     [&] { return cuMemExportToShareableHandle(into, handle, type, flags); });
}
int hipMemImportFromShareableHandle(uint64_t* handle, void* from, int type) {
  check_physical();
  return on_physical("hipMemImportFromShareableHandle",
                     [&] { return cuMemImportFromShareableHandle(handle, from, type); });
}
int hipMemAddressReserve(uint64_t* address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags) {
  return on_physical("hipMemAddressReserve",
                     [&] { return cuMemAddressReserve(address, size, alignment, wish, flags); });
}
int hipMemAddressFree(uint64_t address, size_t size) {
  return on_physical("hipMemAddressFree", [&] { return cuMemAddressFree(address, size); });
}
int hipMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags) {
  return on_physical("hipMemMap", [&] { return cuMemMap(address, size, offset, handle, flags); });
}
int hipMemUnmap(uint64_t address, size_t size) {
  return on_physical("hipMemUnmap", [&] { return cuMemUnmap(address, size); });
}
int hipMemSetAccess(uint64_t address, size_t size, const void* wishes, size_t count) {
  return on_physical("hipMemSetAccess", [&] { return cuMemSetAccess(address, size, wishes, count); });
}
int hipPointerSetAttribute(const void* value, int attribute, uint64_t address) {
  return on_device("hipPointerSetAttribute", [&] { return cuPointerSetAttribute(value, attribute, address); });
}
int hipDeviceFlushGPUDirectRDMAWrites(int target, int scope) {
  return on_device("hipDeviceFlushGPUDirectRDMAWrites", [&] { return cuFlushGPUDirectRDMAWrites(target, scope); });
}

// The runtime below, with statuses of its own. A dma-buf holds the whole buffer that the range is in.
int hsa_system_get_info(int attribute, void* value) {
  if (attribute != 0x204) return 0x1001;
  *static_cast<bool*>(value) = exports_dma_bufs;
  return enter("hsa_system_get_info");
}
int hsa_status_string(int status, const char** text) {
  *text = status == 0x1003 ? "HSA_STATUS_ERROR_INVALID_ALLOCATION: The requested allocation is not valid."
                           : "HSA_STATUS_ERROR: A generic error has occurred.";
  return ok;
}
int hsa_amd_portable_export_dmabuf(const void* address, size_t size, int* descriptor, uint64_t* offset) {
  int status = enter("hsa_amd_portable_export_dmabuf");
  if (status != ok) return status;
  const auto at = reinterpret_cast<uint64_t>(address);
  stack.push_back(&world().contexts[current]);
  status = cuMemGetHandleForAddressRange(descriptor, at, size, 1, 0);
  stack.pop_back();
  if (status != ok) return 0x1003;
  *offset = static_cast<uint64_t>(::lseek(*descriptor, 0, SEEK_CUR));
  ::lseek(*descriptor, 0, SEEK_SET);
  return ok;
}

// For programs that bring their own device memory (tests/gpu/on_device.py).
int hipMemCreate(uint64_t* handle, size_t size, const void* properties, unsigned long long flags) {
  return on_physical("hipMemCreate", [&] { return cuMemCreate(handle, size, properties, flags); });
}
int hipMalloc(uint64_t* address, size_t size) {
  return on_device("hipMalloc", [&] { return cuMemAlloc_v2(address, size); });
}
int hipFree(uint64_t address) {
  return on_device("hipFree", [&] { return cuMemFree_v2(address); });
}
int hipMemcpyHtoD(uint64_t to, void* from, size_t size) {
  return on_device("hipMemcpyHtoD", [&] { return cuMemcpyHtoD_v2(to, from, size); });
}
int hipMemcpyDtoH(void* to, uint64_t from, size_t size) {
  return on_device("hipMemcpyDtoH", [&] { return cuMemcpyDtoH_v2(to, from, size); });
}
int hipStreamSynchronize(void* stream) {
  return on_device("hipStreamSynchronize", [&] { return cuStreamSynchronize(stream); });
}
}
#pragma GCC visibility pop
