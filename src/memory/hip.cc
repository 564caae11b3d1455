#include "memory/hip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::memory::cuda {
namespace amd {
namespace {

// Signatures are those of hip_runtime_api.h, with a device's address as a number.
struct Hip {
  int (*init)(unsigned flags);
  int (*version)(int* version);
  const char* (*error_name)(int status);
  int (*last_error)();
  int (*device_count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*device_name)(char* name, int size, int device);
  int (*device_bytes)(size_t* bytes, int device);
  int (*device_uuid)(Uuid* uuid, int device);
  int (*current)(int* device);
  int (*make_current)(int device);
  int (*pointer_attribute)(void* value, int attribute, uint64_t address);
  int (*address_range)(uint64_t* begin, size_t* size, uint64_t address);
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
  int (*ipc_export)(IpcHandle* handle, uint64_t address);
  int (*ipc_open)(uint64_t* address, IpcHandle handle, unsigned flags);
  int (*ipc_close)(uint64_t address);
  bool exports_dma_buf = false;
};
Hip hip;

enum HipStatus : int { invalid_device = 101, not_supported = 801 };
// hipMemoryTypeDevice; it is 1 before ROCm 6.
unsigned device_type = 2;

// A failure is not the program's, which asks HIP for the last one of its thread to check its own calls.
int settled(int status) {
  if (status != success) static_cast<void>(hip.last_error());
  return status;
}

// HIP's function of that member, settled.
template <auto Own>
struct Settled;
template <class... Arguments, int (*Hip::*Own)(Arguments...)>
struct Settled<Own> {
  static int call(Arguments... arguments) { return settled((hip.*Own)(arguments...)); }
};

// CUDA says that there is no device when it starts; HIP, when devices are counted.
int init(unsigned flags) {
  int version = 0, count = 0;
  int status = hip.init(flags);
  if (status == success) status = hip.version(&version);
  if (status == success) status = hip.device_count(&count);
  if (status == success && count == 0) status = no_device;
  device_type = version < 60'000'000 ? 1 : 2;
  return settled(status);
}

int error_name(int status, const char** name) {
  *name = hip.error_name(status);
  return *name != nullptr ? success : invalid_value;
}

int device_attribute(int* value, int attribute, int /*device*/) {
  *value = attribute == device_dma_buf && hip.exports_dma_buf ? 1 : 0;
  return success;
}

// Devices without a UUID have "XX" after "GPU-", or zeros.
int device_uuid(Uuid* uuid, int device) {
  int count = 0;
  int status = hip.device_uuid(uuid, device);
  if (status == success) status = hip.device_count(&count);
  const auto* const bytes = uuid->bytes;
  if (status == success && (bytes[0] == '\0' || std::memcmp(bytes, "XX", 2) == 0)) status = not_supported;
  for (int other = 0; status == success && other < count; ++other) {
    Uuid its{};
    if (other != device) status = hip.device_uuid(&its, other);
    if (status == success && std::memcmp(&its, uuid, sizeof its) == 0) status = not_supported;
  }
  return settled(status);
}

// --- The device of a thread ------------------------------------------------------------------------------------------

void* context_of_device(int device) { return reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1); }
int device_of_context(void* context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context) - 1); }

thread_local std::vector<int> devices_before;

int primary_context(void** context, int device) {
  int known = 0;
  const int status = hip.device(&known, device);
  *context = context_of_device(device);
  return settled(status);
}

int push(void* context) {
  int before = 0;
  const int device = device_of_context(context);
  int status = hip.current(&before);
  if (status == success && before != device) status = hip.make_current(device);
  if (status == success) devices_before.push_back(before);
  return settled(status);
}

int pop(void** context) {
  int device = 0;
  int status = devices_before.empty() ? invalid_value : hip.current(&device);
  if (status != success) return settled(status);
  *context = context_of_device(device);
  if (devices_before.back() != device) status = hip.make_current(devices_before.back());
  devices_before.pop_back();
  return settled(status);
}

// --- Pointers --------------------------------------------------------------------------------------------------------

// Attributes that HIP writes as 1, 4 or 8 bytes.
int number_of(uint64_t address, int attribute, uint64_t& value) {
  value = 0;
  return hip.pointer_attribute(&value, attribute, address);
}

int is_managed(uint64_t address, bool& managed) {
  uint64_t value = 0;
  const int status = number_of(address, pointer_is_managed, value);
  managed = (value & 0xff) != 0;
  return status;
}

// Managed memory is the host's to HIP; it is told as a device's here, so that the next question says what it is.
int memory_type(uint64_t address, unsigned& type) {
  uint64_t its = 0;
  bool managed = false;
  int status = number_of(address, pointer_memory_type, its);
  const bool on_device = static_cast<unsigned>(its) == device_type;
  if (status == success && !on_device) status = is_managed(address, managed);
  type = on_device || managed ? memory_type_device : 1;
  return status;
}

int pointer_attribute(void* value, int attribute, uint64_t address) {
  uint64_t begin = 0, number = 0;
  size_t size = 0;
  bool managed = false;
  int status = success;
  switch (attribute) {
    case pointer_memory_type:
      status = memory_type(address, *static_cast<unsigned*>(value));
      break;
    case pointer_is_managed:
      status = is_managed(address, managed);
      *static_cast<unsigned*>(value) = managed ? 1 : 0;
      break;
    case pointer_range_start:
      status = hip.address_range(&begin, &size, address);
      *static_cast<uint64_t*>(value) = begin;
      break;
    case pointer_range_size:
      status = hip.address_range(&begin, &size, address);
      *static_cast<size_t*>(value) = size;
      break;
    case pointer_buffer_id:
      status = number_of(address, attribute, number);
      *static_cast<uint64_t*>(value) = number;
      break;
    default:
      status = hip.pointer_attribute(value, attribute, address);
  }
  return settled(status);
}

// --- Streams ---------------------------------------------------------------------------------------------------------

void* own_stream(void* stream) { return reinterpret_cast<uintptr_t>(stream) == 1 ? nullptr : stream; }

int stream_capturing(void* stream, int* state) { return settled(hip.stream_capturing(own_stream(stream), state)); }
int event_record(void* event, void* stream) { return settled(hip.event_record(event, own_stream(stream))); }

// --- Names -----------------------------------------------------------------------------------------------------------

// As Driver::fault is told CUDA's, for the calls that are made.
const char* own_name(const char* call) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 26> names{{
      {"cuCtxPushCurrent", "hipSetDevice"},
      {"cuDeviceGet", "hipDeviceGet"},
      {"cuDeviceGetCount", "hipGetDeviceCount"},
      {"cuDeviceGetUuid", "hipDeviceGetUuid"},
      {"cuDevicePrimaryCtxRetain", "hipDeviceGet"},
      {"cuDriverGetVersion", "hipDriverGetVersion"},
      {"cuEventCreate", "hipEventCreateWithFlags"},
      {"cuEventQuery", "hipEventQuery"},
      {"cuEventRecord", "hipEventRecord"},
      {"cuInit", "hipInit"},
      {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"},
      {"cuIpcGetMemHandle", "hipIpcGetMemHandle"},
      {"cuIpcOpenMemHandle", "hipIpcOpenMemHandle"},
      {"cuMemAlloc", "hipMalloc"},
      {"cuMemFree", "hipFree"},
      {"cuMemGetAddressRange", "hipMemGetAddressRange"},
      {"cuMemHostRegister", "hipHostRegister"},
      {"cuMemHostUnregister", "hipHostUnregister"},
      {"cuMemcpyDtoH", "hipMemcpyDtoH"},
      {"cuMemcpyDtoHAsync", "hipMemcpyDtoHAsync"},
      {"cuMemcpyHtoD", "hipMemcpyHtoD"},
      {"cuMemcpyHtoDAsync", "hipMemcpyHtoDAsync"},
      {"cuPointerGetAttribute", "hipPointerGetAttribute"},
      {"cuStreamCreate", "hipStreamCreateWithFlags"},
      {"cuStreamDestroy", "hipStreamDestroy"},
      {"cuStreamIsCapturing", "hipStreamIsCapturing"},
  }};
  const auto* const found = std::ranges::find(names, std::string_view(call), &decltype(names)::value_type::first);
  return found != names.end() ? found->second : call;
}

// The name of the first function that is needed and absent; nullptr: none.
const char* find_functions(void* library) {
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& into) {
    if (!find_function(library, name, into) && missing == nullptr) missing = name;
  };
  need("hipInit", hip.init);
  need("hipDriverGetVersion", hip.version);
  need("hipGetErrorName", hip.error_name);
  need("hipGetLastError", hip.last_error);
  need("hipGetDeviceCount", hip.device_count);
  need("hipDeviceGet", hip.device);
  need("hipDeviceGetName", hip.device_name);
  need("hipDeviceTotalMem", hip.device_bytes);
  need("hipGetDevice", hip.current);
  need("hipSetDevice", hip.make_current);
  need("hipPointerGetAttribute", hip.pointer_attribute);
  need("hipMemGetAddressRange", hip.address_range);
  need("hipHostRegister", hip.host_register);
  need("hipHostUnregister", hip.host_unregister);
  need("hipStreamCreateWithFlags", hip.stream_create);
  need("hipStreamDestroy", hip.stream_destroy);
  need("hipStreamIsCapturing", hip.stream_capturing);
  need("hipEventCreateWithFlags", hip.event_create);
  need("hipEventDestroy", hip.event_destroy);
  need("hipEventRecord", hip.event_record);
  need("hipEventQuery", hip.event_query);
  need("hipMemcpyHtoDAsync", hip.to_device);
  need("hipMemcpyDtoHAsync", hip.to_host);
  find_function(library, "hipDeviceGetUuid", hip.device_uuid);
  find_function(library, "hipIpcGetMemHandle", hip.ipc_export);
  find_function(library, "hipIpcOpenMemHandle", hip.ipc_open);
  find_function(library, "hipIpcCloseMemHandle", hip.ipc_close);
  // HIP's own (ROCm 7), or that of the runtime below it, which the library is linked with.
  hip.exports_dma_buf = ::dlsym(library, "hipMemGetHandleForAddressRange") != nullptr ||
                        ::dlsym(library, "hsa_amd_portable_export_dmabuf") != nullptr;
  return missing;
}

}  // namespace
}  // namespace amd

const char* find_hip(void* library, Calls& calls) {
  using namespace amd;
  if (const char* const missing = find_functions(library); missing != nullptr) return missing;
  calls.init = init;
  calls.version = Settled<&Hip::version>::call;
  calls.error_name = error_name;
  calls.own_name = own_name;
  calls.device_count = Settled<&Hip::device_count>::call;
  calls.device = Settled<&Hip::device>::call;
  calls.device_name = Settled<&Hip::device_name>::call;
  calls.device_bytes = Settled<&Hip::device_bytes>::call;
  calls.device_attribute = device_attribute;
  calls.primary_context = primary_context;
  calls.push = push;
  calls.pop = pop;
  calls.pointer_attribute = pointer_attribute;
  calls.address_range = Settled<&Hip::address_range>::call;
  calls.host_register = Settled<&Hip::host_register>::call;
  calls.host_unregister = Settled<&Hip::host_unregister>::call;
  calls.stream_create = Settled<&Hip::stream_create>::call;
  calls.stream_destroy = Settled<&Hip::stream_destroy>::call;
  calls.stream_capturing = stream_capturing;
  calls.event_create = Settled<&Hip::event_create>::call;
  calls.event_destroy = Settled<&Hip::event_destroy>::call;
  calls.event_record = event_record;
  calls.event_query = Settled<&Hip::event_query>::call;
  calls.to_device = Settled<&Hip::to_device>::call;
  calls.to_host = Settled<&Hip::to_host>::call;
  if (hip.device_uuid != nullptr) calls.device_uuid = device_uuid;
  if (hip.ipc_export != nullptr) calls.ipc_export = Settled<&Hip::ipc_export>::call;
  if (hip.ipc_open != nullptr) calls.ipc_open = Settled<&Hip::ipc_open>::call;
  if (hip.ipc_close != nullptr) calls.ipc_close = Settled<&Hip::ipc_close>::call;
  return nullptr;
}

}  // namespace verbena::memory::cuda
