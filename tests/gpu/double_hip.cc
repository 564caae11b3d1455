// The double with the names of AMD's driver (hip_runtime_api.h, ROCm 6), beside those of double.cc, to which it passes
// calls on: each is counted, and made to fail, by both names. What HIP does otherwise is here.
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
}
namespace {

constexpr int not_found = 500;

thread_local int current = 0;
thread_local int last = ok;
std::atomic<int> version{60'241'134};  // 6.2
std::atomic<bool> nameless{false};

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

// Streams are pointers: before ROCm 6.2 CUDA's number of the default stream is none.
void check_stream(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) == 1) ++world().misuse;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void double_hip_version(int given) { version = given; }
void double_hip_nameless(bool without) { nameless = without; }

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

// For programs that bring their own device memory (tests/gpu/on_device.py).
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
