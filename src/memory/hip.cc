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
  int (*set_pointer_attribute)(const void* value, int attribute, uint64_t address);
  int (*flush_writes)(int target, int scope);
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
  // Of the runtime below (hsa.h, hsa_ext_amd.h).
  int (*export_dma_buf)(const void* address, size_t size, int* descriptor, uint64_t* offset);
  int (*system_info)(int attribute, void* value);
  int (*hsa_status_text)(int status, const char** text);
  void* library;
  bool shares_physical;
};
Hip hip;

enum HipStatus : int { invalid_device = 101, not_supported = 801 };
constexpr int hsa_error = 0x1000;  // the runtime's statuses begin there, behind all of HIP's
constexpr int hsa_dma_buf_supported = 0x204;
constexpr unsigned release_to_system = 0x8000'0000;
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

// The runtime that HIP has started: another copy of its library would know none of the memory.
void find_runtime() {
  void* const loaded = ::dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  for (void* const library : {hip.library, loaded}) {
    if (library == nullptr) continue;
    if (!find_function(library, "hsa_amd_portable_export_dmabuf", hip.export_dma_buf)) continue;
    find_function(library, "hsa_system_get_info", hip.system_info);
    find_function(library, "hsa_status_string", hip.hsa_status_text);
    return;
  }
}

// CUDA says that there is no device when it starts; HIP, when devices are counted.
int init(unsigned flags) {
  int version = 0, count = 0;
  int status = hip.init(flags);
  if (status == success) status = hip.version(&version);
  if (status == success) status = hip.device_count(&count);
  if (status == success && count == 0) status = no_device;
  device_type = version < 60'000'000 ? 1 : 2;
  if (status == success) find_runtime();
  return settled(status);
}

int error_name(int status, const char** name) {
  if (status >= hsa_error) {
    return hip.hsa_status_text != nullptr ? hip.hsa_status_text(status, name) : invalid_value;
  }
  *name = hip.error_name(status);
  return *name != nullptr ? success : invalid_value;
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

// --- Other devices ---------------------------------------------------------------------------------------------------

bool exports_dma_buf() {
  bool supported = false;
  return hip.export_dma_buf != nullptr && hip.system_info != nullptr &&
         hip.system_info(hsa_dma_buf_supported, &supported) == success && supported;
}

int range_in_buffer(int* descriptor, uint64_t* offset, uint64_t address, size_t size) {
  if (hip.export_dma_buf == nullptr) return not_supported;
  return hip.export_dma_buf(reinterpret_cast<const void*>(static_cast<uintptr_t>(address)), size, descriptor, offset);
}

// A flush does no harm.
bool flushes_writes(int device) {
  void* context = context_of_device(device);
  if (hip.flush_writes == nullptr || push(context) != success) return false;
  const bool done = settled(hip.flush_writes(flush_current_context, flush_for_owner)) == success;
  return pop(&context) == success && done;
}

int device_attribute(int* value, int attribute, int device) {
  const bool flushes = attribute == device_flush_options && flushes_writes(device);
  *value = flushes ? flush_by_host
                   : static_cast<int>((attribute == device_dma_buf && exports_dma_buf()) ||
                                      (attribute == device_descriptors && hip.shares_physical));
  return success;
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
int event_create(void** event, unsigned flags) { return settled(hip.event_create(event, flags | release_to_system)); }
int event_record(void* event, void* stream) { return settled(hip.event_record(event, own_stream(stream))); }

// --- Names -----------------------------------------------------------------------------------------------------------

// As Driver::fault is told CUDA's, for the calls that are made.
const char* own_name(const char* call) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 39> names{{
      {"cuCtxPushCurrent", "hipSetDevice"},
      {"cuDeviceGet", "hipDeviceGet"},
      {"cuDeviceGetCount", "hipGetDeviceCount"},
      {"cuDeviceGetUuid", "hipDeviceGetUuid"},
      {"cuDevicePrimaryCtxRetain", "hipDeviceGet"},
      {"cuDriverGetVersion", "hipDriverGetVersion"},
      {"cuEventCreate", "hipEventCreateWithFlags"},
      {"cuEventQuery", "hipEventQuery"},
      {"cuEventRecord", "hipEventRecord"},
      {"cuFlushGPUDirectRDMAWrites", "hipDeviceFlushGPUDirectRDMAWrites"},
      {"cuInit", "hipInit"},
      {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"},
      {"cuIpcGetMemHandle", "hipIpcGetMemHandle"},
      {"cuIpcOpenMemHandle", "hipIpcOpenMemHandle"},
      {"cuMemAddressFree", "hipMemAddressFree"},
      {"cuMemAddressReserve", "hipMemAddressReserve"},
      {"cuMemAlloc", "hipMalloc"},
      {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"},
      {"cuMemFree", "hipFree"},
      {"cuMemGetAddressRange", "hipMemGetAddressRange"},
      {"cuMemGetAllocationPropertiesFromHandle", "hipMemGetAllocationPropertiesFromHandle"},
      {"cuMemGetHandleForAddressRange", "hsa_amd_portable_export_dmabuf"},
      {"cuMemHostRegister", "hipHostRegister"},
      {"cuMemHostUnregister", "hipHostUnregister"},
      {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"},
      {"cuMemMap", "hipMemMap"},
      {"cuMemRelease", "hipMemRelease"},
      {"cuMemRetainAllocationHandle", "hipMemRetainAllocationHandle"},
      {"cuMemSetAccess", "hipMemSetAccess"},
      {"cuMemUnmap", "hipMemUnmap"},
      {"cuMemcpyDtoH", "hipMemcpyDtoH"},
      {"cuMemcpyDtoHAsync", "hipMemcpyDtoHAsync"},
      {"cuMemcpyHtoD", "hipMemcpyHtoD"},
      {"cuMemcpyHtoDAsync", "hipMemcpyHtoDAsync"},
      {"cuPointerGetAttribute", "hipPointerGetAttribute"},
      {"cuPointerSetAttribute", "hipPointerSetAttribute"},
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
  find_function(library, "hipPointerSetAttribute", hip.set_pointer_attribute);
  find_function(library, "hipDeviceFlushGPUDirectRDMAWrites", hip.flush_writes);
  find_function(library, "hipMemRetainAllocationHandle", hip.physical_behind);
  find_function(library, "hipMemRelease", hip.physical_release);
  find_function(library, "hipMemGetAllocationPropertiesFromHandle", hip.physical_facts);
  find_function(library, "hipMemExportToShareableHandle", hip.physical_export);
  find_function(library, "hipMemImportFromShareableHandle", hip.physical_import);
  find_function(library, "hipMemAddressReserve", hip.reserve);
  find_function(library, "hipMemAddressFree", hip.unreserve);
  find_function(library, "hipMemMap", hip.map);
  find_function(library, "hipMemUnmap", hip.unmap);
  find_function(library, "hipMemSetAccess", hip.set_access);
  hip.library = library;
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
  calls.event_create = event_create;
  calls.event_destroy = Settled<&Hip::event_destroy>::call;
  calls.event_record = event_record;
  calls.event_query = Settled<&Hip::event_query>::call;
  calls.to_device = Settled<&Hip::to_device>::call;
  calls.to_host = Settled<&Hip::to_host>::call;
  if (hip.device_uuid != nullptr) calls.device_uuid = device_uuid;
  if (hip.ipc_export != nullptr) calls.ipc_export = Settled<&Hip::ipc_export>::call;
  if (hip.ipc_open != nullptr) calls.ipc_open = Settled<&Hip::ipc_open>::call;
  if (hip.ipc_close != nullptr) calls.ipc_close = Settled<&Hip::ipc_close>::call;
  if (hip.set_pointer_attribute != nullptr) calls.set_pointer_attribute = Settled<&Hip::set_pointer_attribute>::call;
  if (hip.flush_writes != nullptr) calls.flush_writes = Settled<&Hip::flush_writes>::call;
  calls.range_in_buffer = range_in_buffer;
  return nullptr;
}

void add_of_version(Calls& calls, int version) {
  using namespace amd;
  if (version < hip_version_of_physical) return;
  if (hip.physical_behind != nullptr) calls.physical_behind = Settled<&Hip::physical_behind>::call;
  if (hip.physical_release != nullptr) calls.physical_release = Settled<&Hip::physical_release>::call;
  if (hip.physical_facts != nullptr) calls.physical_facts = Settled<&Hip::physical_facts>::call;
  if (hip.physical_export != nullptr) calls.physical_export = Settled<&Hip::physical_export>::call;
  if (hip.physical_import != nullptr) calls.physical_import = Settled<&Hip::physical_import>::call;
  if (hip.reserve != nullptr) calls.reserve = Settled<&Hip::reserve>::call;
  if (hip.unreserve != nullptr) calls.unreserve = Settled<&Hip::unreserve>::call;
  if (hip.map != nullptr) calls.map = Settled<&Hip::map>::call;
  if (hip.unmap != nullptr) calls.unmap = Settled<&Hip::unmap>::call;
  if (hip.set_access != nullptr) calls.set_access = Settled<&Hip::set_access>::call;
  hip.shares_physical = calls.shares_physical();
}

}  // namespace verbena::memory::cuda
