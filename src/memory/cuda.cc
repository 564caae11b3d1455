#include "memory/cuda.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "memory/cuda_context.h"
#include "memory/hip.h"

namespace verbena::memory::cuda {

namespace {

using Kind = Fault::Kind;

std::unexpected<Fault> no(Kind kind, std::string text) { return std::unexpected(Fault{kind, std::move(text)}); }

// What the process has loaded, also after a failure.
struct Loaded {
  Outcome<std::unique_ptr<Driver>> driver;
  pid_t process = ::getpid();
};

struct Library {
  const char* maker;
  const char* api;
  const char* variable;            // names another library, for tests
  std::vector<const char*> names;  // the newest first
  const char* device_files;        // that every process which uses a device opens
  int version_min;
};

const Library& library_of(Platform platform) {
  static const Library nvidia{"NVIDIA",         "CUDA",         "TEST_VERBENA_CUDA_DRIVER",
                              {"libcuda.so.1"}, "/dev/nvidia*", version_min};
  static const Library amd{"AMD",
                           "HIP",
                           "TEST_VERBENA_HIP_DRIVER",
                           {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                           "/dev/kfd and /dev/dri/renderD*",
                           hip_version_min};
  return platform == Platform::cuda ? nvidia : amd;
}

struct Opened {
  void* handle = nullptr;
  std::string path;
};

// Never unloaded: its threads would go on. A library that the program has loaded comes first, whatever its version: a
// second one would know none of the program's memory.
Opened open_library(const Library& library) {
  const char* const named = ::secure_getenv(library.variable);
  std::vector<const char*> names = library.names;
  if (named != nullptr && *named != '\0') names = {named};
  for (const int loaded : {RTLD_NOLOAD, 0}) {
    for (const char* const name : names) {
      if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | loaded)) return {handle, name};
    }
  }
  return {};
}

// The name of the first function that the library lacks; nullptr: none.
const char* find_cuda(void* library, Calls& calls) {
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& into) {
    if (!find_function(library, name, into) && missing == nullptr) missing = name;
  };
  need("cuInit", calls.init);
  need("cuDriverGetVersion", calls.version);
  need("cuGetErrorName", calls.error_name);
  need("cuDeviceGetCount", calls.device_count);
  need("cuDeviceGet", calls.device);
  need("cuDeviceGetName", calls.device_name);
  need("cuDeviceTotalMem_v2", calls.device_bytes);
  need("cuDeviceGetAttribute", calls.device_attribute);
  need("cuDevicePrimaryCtxRetain", calls.primary_context);
  need("cuCtxPushCurrent_v2", calls.push);
  need("cuCtxPopCurrent_v2", calls.pop);
  need("cuPointerGetAttribute", calls.pointer_attribute);
  need("cuMemHostRegister_v2", calls.host_register);
  need("cuMemHostUnregister", calls.host_unregister);
  need("cuStreamCreate", calls.stream_create);
  need("cuStreamDestroy_v2", calls.stream_destroy);
  need("cuStreamIsCapturing", calls.stream_capturing);
  need("cuEventCreate", calls.event_create);
  need("cuEventDestroy_v2", calls.event_destroy);
  need("cuEventRecord", calls.event_record);
  need("cuEventQuery", calls.event_query);
  need("cuMemcpyHtoDAsync_v2", calls.to_device);
  need("cuMemcpyDtoHAsync_v2", calls.to_host);
  // The second version tells the parts of a GPU in MIG from each other.
  if (!find_function(library, "cuDeviceGetUuid_v2", calls.device_uuid))
    find_function(library, "cuDeviceGetUuid", calls.device_uuid);
  find_function(library, "cuMemGetAddressRange_v2", calls.address_range);
  find_function(library, "cuIpcGetMemHandle", calls.ipc_export);
  find_function(library, "cuIpcOpenMemHandle_v2", calls.ipc_open);
  find_function(library, "cuIpcCloseMemHandle", calls.ipc_close);
  find_function(library, "cuMemRetainAllocationHandle", calls.physical_behind);
  find_function(library, "cuMemRelease", calls.physical_release);
  find_function(library, "cuMemGetAllocationPropertiesFromHandle", calls.physical_facts);
  find_function(library, "cuMemExportToShareableHandle", calls.physical_export);
  find_function(library, "cuMemImportFromShareableHandle", calls.physical_import);
  find_function(library, "cuMemAddressReserve", calls.reserve);
  find_function(library, "cuMemAddressFree", calls.unreserve);
  find_function(library, "cuMemMap", calls.map);
  find_function(library, "cuMemUnmap", calls.unmap);
  find_function(library, "cuMemSetAccess", calls.set_access);
  find_function(library, "cuMemGetHandleForAddressRange", calls.range_handle);
  find_function(library, "cuFlushGPUDirectRDMAWrites", calls.flush_writes);
  find_function(library, "cuPointerSetAttribute", calls.set_pointer_attribute);
  return missing;
}

// What the driver's name of a failed start does not say.
std::string hint(int status, const Library& library) {
  switch (status) {
    case no_device:
      return std::string(": there is no GPU, or this process may not open ") + library.device_files;
    case not_initialized:
      return ": was the driver in use before this process was forked?";
    default:
      return "";
  }
}

std::string shown(Platform platform, int version) {
  const int major = platform == Platform::cuda ? version / 1000 : version / 10'000'000;
  const int minor = platform == Platform::cuda ? version % 1000 / 10 : version / 100'000 % 100;
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

std::string_view to_string(Platform platform) { return platform == Platform::cuda ? "cuda" : "rocm"; }

Driver::Driver(Platform platform) : platform_(platform) {}

Fault Driver::fault(const char* call, int status) const {
  const char* name = nullptr;
  if (calls_->error_name(status, &name) != success || name == nullptr) name = "an unknown error";
  if (calls_->own_name != nullptr) call = calls_->own_name(call);
  const Kind kind = status == no_device ? Kind::absent : Kind::failed;
  return {kind, std::string(call) + ": " + name};
}

Outcome<std::unique_ptr<Driver>> Driver::load(Platform platform) {
  const Library& library = library_of(platform);
  const Opened opened = open_library(library);
  if (opened.handle == nullptr) {
    const char* why = ::dlerror();
    const std::string text = why == nullptr ? library.names.back() : why;
    return std::unexpected(Fault{Kind::absent, "no " + std::string(library.maker) + " driver: " + text, true});
  }
  auto calls = std::make_unique<Calls>();
  const char* const missing =
      platform == Platform::cuda ? find_cuda(opened.handle, *calls) : find_hip(opened.handle, *calls);
  if (missing != nullptr) return no(Kind::absent, opened.path + " is too old: it has no " + missing);
  std::unique_ptr<Driver> driver(new Driver(platform));
  Calls& table = *calls;
  driver->calls_ = std::move(calls);
  driver->path_ = opened.path;
  if (const int status = driver->calls_->init(0); status != success) {
    Fault fault = driver->fault("cuInit", status);
    fault.kind = Kind::absent;
    fault.text += hint(status, library);
    return std::unexpected(std::move(fault));
  }
  if (const int status = driver->calls_->version(&driver->version_); status != success) {
    return std::unexpected(driver->fault("cuDriverGetVersion", status));
  }
  if (driver->version_ < library.version_min) {
    return no(Kind::absent, opened.path + " is version " + shown(platform, driver->version_) + ", and " +
                                shown(platform, library.version_min) + " is needed");
  }
  if (platform == Platform::rocm) add_of_version(table, driver->version_);
  return driver;
}

Outcome<const Driver*> Driver::get(Platform platform) {
  const auto found = [](const Loaded& loaded) -> Outcome<const Driver*> {
    if (!loaded.driver) return std::unexpected(loaded.driver.error());
    if (loaded.process == ::getpid()) return loaded.driver->get();
    return no(Kind::absent,
              "the driver was initialized before a fork of this process: use it in the parent, or start "
              "the child anew");
  };
  if (platform == Platform::rocm) {
    static const Loaded amd{load(Platform::rocm)};
    return found(amd);
  }
  static const Loaded nvidia{load(Platform::cuda)};
  return found(nvidia);
}

bool Driver::may_be_there() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/kfd", F_OK) == 0 ||
         ::secure_getenv("TEST_VERBENA_CUDA_DRIVER") != nullptr ||
         ::secure_getenv("TEST_VERBENA_HIP_DRIVER") != nullptr;
}

Drivers drivers() {
  Drivers out;
  Fault none{.kind = Kind::absent, .no_library = true};
  for (const Platform platform : platforms) {
    auto driver = Driver::get(platform);
    if (driver) {
      out.ready.push_back(*driver);
    } else if (!driver.error().no_library) {
      out.faults.push_back(std::move(driver).error());
    } else {
      none.text += (none.text.empty() ? "" : "; ") + driver.error().text;
    }
  }
  if (out.ready.empty() && out.faults.empty()) out.faults.push_back(std::move(none));
  return out;
}

std::string Driver::title() const {
  return path_ + ", " + library_of(platform_).api + " " + shown(platform_, version_);
}

Outcome<std::vector<DeviceFacts>> Driver::devices() const {
  int count = 0;
  if (const int status = calls_->device_count(&count); status != success) {
    return std::unexpected(fault("cuDeviceGetCount", status));
  }
  std::vector<DeviceFacts> all;
  for (int i = 0; i < count; ++i) {
    int device = 0, flag = 0;
    if (const int status = calls_->device(&device, i); status != success) {
      return std::unexpected(fault("cuDeviceGet", status));
    }
    DeviceFacts facts{.device = i};
    char name[128] = {};
    if (calls_->device_name(name, sizeof name - 1, device) == success) facts.name = name;
    size_t bytes = 0;
    if (calls_->device_bytes(&bytes, device) == success) facts.bytes = bytes;
    facts.dma_buf = calls_->device_attribute(&flag, device_dma_buf, device) == success && flag != 0;
    facts.descriptors = calls_->device_attribute(&flag, device_descriptors, device) == success && flag != 0;
    all.push_back(std::move(facts));
  }
  return all;
}

Outcome<Allocation> Driver::allocation(uint64_t address) const {
  const auto ask = [&](int attribute, void* into) { return calls_->pointer_attribute(into, attribute, address); };
  unsigned type = 0, managed = 0;
  int status = ask(pointer_memory_type, &type);
  if (status == invalid_value || (status == success && type != memory_type_device)) {
    return no(Kind::refused, "this is no memory of a device");
  }
  if (status != success) return std::unexpected(fault("cuPointerGetAttribute", status));
  if (ask(pointer_is_managed, &managed) == success && managed != 0) {
    return no(Kind::refused, "managed memory has no fixed place: it is not served");
  }
  Allocation found;
  size_t size = 0;
  status = ask(pointer_device_ordinal, &found.device);
  if (status == success) status = ask(pointer_range_start, &found.begin);
  if (status == success) status = ask(pointer_range_size, &size);
  if (status == success) status = ask(pointer_buffer_id, &found.id);
  if (status != success) return std::unexpected(fault("cuPointerGetAttribute", status));
  found.size = size;
  if (address < found.begin || address - found.begin >= found.size) {
    return no(Kind::refused, "this is no memory of a device");
  }
  return found;
}

Outcome<std::vector<Allocation>> Driver::cover(uint64_t address, uint64_t size) const {
  if (size == 0 || size > UINT64_MAX - address) return no(Kind::refused, "the window has no bytes, or wraps");
  auto first = allocation(address);
  if (!first) return std::unexpected(std::move(first).error());
  std::vector<Allocation> all{*first};
  // Growing tensors of some allocators consist of many mappings side by side.
  while (all.back().begin + all.back().size < address + size) {
    auto next = allocation(all.back().begin + all.back().size);
    if (!next || next->device != first->device) return no(Kind::refused, "the window reaches beyond its allocation");
    all.push_back(*next);
  }
  return all;
}

Outcome<DeviceName> Driver::name_of(int number) const {
  if (calls_->device_uuid == nullptr) return no(Kind::failed, path_ + " tells no UUIDs of devices");
  int device = 0;
  Uuid uuid{};
  int status = calls_->device(&device, number);
  if (status == success) status = calls_->device_uuid(&uuid, device);
  if (status != success) return std::unexpected(fault("cuDeviceGetUuid", status));
  DeviceName name;
  std::memcpy(name.data(), uuid.bytes, name.size());
  return name;
}

Outcome<Exported> Driver::share(const Allocation& allocation) const {
  if (!calls_->shares()) return no(Kind::failed, path_ + " shares no memory between processes");
  auto context = context_of(*this, allocation.device);
  if (!context) return std::unexpected(std::move(context).error());
  auto name = name_of(allocation.device);
  if (!name) return std::unexpected(std::move(name).error());
  IpcHandle handle{};
  auto shared = in_context(*this, *context, "cuIpcGetMemHandle",
                           [&](const Calls& c) { return c.ipc_export(&handle, allocation.begin); });
  if (!shared) return std::unexpected(std::move(shared).error());
  Exported out{.device = *name, .size = allocation.size, .platform = platform_};
  std::memcpy(out.handle.data(), handle.bytes, sizeof handle.bytes);
  return out;
}

}  // namespace verbena::memory::cuda
