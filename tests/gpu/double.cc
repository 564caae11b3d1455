// A double of NVIDIA's driver: a library with the driver's names (cuda.h), without a device. Device memory lies at
// addresses that no CPU access may touch (PROT_NONE), and its bytes in a second mapping that only the copies here use;
// streams run late, on threads of their own; any call can be made to fail, and each is counted.
#include <algorithm>

#include "double.h"
#include "double_world.h"

using namespace cuda_double;

namespace {

bool is_locked(const void* memory, size_t size) {
  const auto at = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard lock(world().mutex);
  auto range = world().locked.upper_bound(at);
  if (range == world().locked.begin()) return false;
  --range;
  const size_t all = range->second.size;
  return at - range->first < all && size <= all - (at - range->first);
}

int copy(uint64_t device_at, void* host, size_t size, void* handle, bool to_device) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return invalid_handle;
  const int device = stack.back()->device;
  if (!each_part(device_at, size, device, [](std::byte*, size_t) {})) return invalid_value;
  const bool locked = is_locked(host, size);
  const auto now = [=] {
    // What was page-locked when the copy was queued must be so when it runs.
    if (locked && !is_locked(host, size)) {
      ++world().misuse;
      return;
    }
    auto* at = static_cast<std::byte*>(host);
    each_part(device_at, size, device, [&](std::byte* bytes, size_t part) {
      if (to_device) std::memcpy(bytes, at, part);
      if (!to_device) std::memcpy(at, bytes, part);
      at += part;
    });
    const char* const call = to_device ? "cuMemcpyHtoDAsync_v2" : "cuMemcpyDtoHAsync_v2";
    if (to_device) spoil_device(call, device_at, size);
    if (!to_device) spoil(call, {static_cast<std::byte*>(host), size});
  };
  stream->add(now);
  if (!locked) {
    ++world().pageable;
    stream->drain();  // as a driver: pageable memory is not used after the call
  }
  return ok;
}

uint64_t allocate(int device, size_t size, bool managed, void* at) {
  const size_t rounded = (size + page - 1) / page * page;
  void* place = ::mmap(at, rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (place == MAP_FAILED) return 0;
  const int memfd = ::memfd_create("device-memory", MFD_CLOEXEC);
  if (memfd < 0 || ::ftruncate(memfd, static_cast<off_t>(rounded)) != 0) return 0;
  void* bytes = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (bytes == MAP_FAILED) return 0;
  std::lock_guard lock(world().mutex);
  const auto address = reinterpret_cast<uint64_t>(place);
  world().allocations[address] = {device, size, static_cast<std::byte*>(bytes), world().next_id++, managed, memfd};
  return address;
}

// Removes the allocation. Under the lock.
void forget(std::map<uint64_t, Allocation>::iterator found) {
  const size_t rounded = (found->second.size + page - 1) / page * page;
  ::munmap(reinterpret_cast<void*>(found->first), rounded);
  ::munmap(found->second.bytes, rounded);
  if (found->second.memfd >= 0) ::close(found->second.memfd);
  world().allocations.erase(found);
}

// Maps what a handle names; 0: it names nothing.
uint64_t import(const Handle& handle) {
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.memfd);
  const int memfd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memfd < 0) return 0;
  struct stat status{};
  const size_t rounded = (handle.size + page - 1) / page * page;
  const bool same =
      ::fstat(memfd, &status) == 0 && status.st_ino == handle.inode && static_cast<uint64_t>(status.st_size) == rounded;
  void* bytes = same ? ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0) : MAP_FAILED;
  ::close(memfd);
  if (bytes == MAP_FAILED) return 0;
  void* place = ::mmap(nullptr, rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return 0;
  std::lock_guard lock(world().mutex);
  const auto address = reinterpret_cast<uint64_t>(place);
  world().allocations[address] = {.device = handle.device,
                                  .size = handle.size,
                                  .bytes = static_cast<std::byte*>(bytes),
                                  .id = world().next_id++,
                                  .imported = 1,
                                  .inode = handle.inode};
  return address;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return enter("cuInit"); }
int cuDriverGetVersion(int* version) {
  const char* const given = std::getenv("TEST_VERBENA_CUDA_VERSION");
  *version = given == nullptr ? 12040 : std::atoi(given);
  return enter("cuDriverGetVersion");
}
int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> names = {{invalid_value, "CUDA_ERROR_INVALID_VALUE"},
                                                   {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
                                                   {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                                                   {218, "CUDA_ERROR_INVALID_PTX"},
                                                   {invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
                                                   {not_ready, "CUDA_ERROR_NOT_READY"},
                                                   {already_locked, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                                                   {not_locked, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
                                                   {800, "CUDA_ERROR_NOT_PERMITTED"},
                                                   {801, "CUDA_ERROR_NOT_SUPPORTED"}};
  const auto found = names.find(status);
  if (found == names.end()) return invalid_value;
  *name = found->second;
  return ok;
}
int cuDeviceGetCount(int* count) {
  *count = devices;
  return enter("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  const int status = enter("cuDeviceGet");
  return status != ok ? status : ordinal >= 0 && ordinal < devices ? ok : invalid_device;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Double %d", device);
  return enter("cuDeviceGetName");
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 30;
  return enter("cuDeviceTotalMem_v2");
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 117   ? world().flush_options.load()
           : attribute == 118 ? world().write_order.load()
                              : attribute == 103 || attribute == 124;
  return enter("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &world().contexts[device];
  return enter("cuDevicePrimaryCtxRetain");
}
int cuCtxPushCurrent_v2(void* context) {
  const int status = enter("cuCtxPushCurrent_v2");
  if (status == ok) stack.push_back(static_cast<Context*>(context));
  return status;
}
int cuCtxPopCurrent_v2(void** context) {
  enter("cuCtxPopCurrent_v2");
  if (stack.empty()) return invalid_context;
  *context = stack.back();
  stack.pop_back();
  return ok;
}
int cuPointerGetAttribute(void* value, int attribute, uint64_t address) {
  const int status = enter("cuPointerGetAttribute");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  uint64_t begin = 0;
  const Allocation* one = find(address, 1, &begin);
  if (one == nullptr) return invalid_value;
  switch (attribute) {
    case 2:
      *static_cast<unsigned*>(value) = 2;
      return ok;
    case 7:
      *static_cast<uint64_t*>(value) = world().blind && one->physical != nullptr ? 1 : one->id;
      return ok;
    case 8:
      *static_cast<unsigned*>(value) = one->managed;
      return ok;
    case 9:
      *static_cast<int*>(value) = one->device;
      return ok;
    case 11:
      *static_cast<uint64_t*>(value) = begin;
      return ok;
    case 12:
      *static_cast<size_t*>(value) = one->size;
      return ok;
  }
  return invalid_value;
}
int cuMemHostRegister_v2(void* memory, size_t size, unsigned) {
  const int status = enter_here("cuMemHostRegister_v2");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  auto& at = world().locked[reinterpret_cast<uintptr_t>(memory)];
  if (at.size != 0 && !at.stale) return already_locked;
  at = {.size = size, .device = stack.back()->device};
  return ok;
}
int cuMemHostUnregister(void* memory) {
  enter("cuMemHostUnregister");
  std::lock_guard lock(world().mutex);
  return world().locked.erase(reinterpret_cast<uintptr_t>(memory)) == 1 ? ok : not_locked;
}
int cuStreamCreate(void** stream, unsigned) {
  const int status = enter_here("cuStreamCreate");
  if (status != ok) return status;
  auto made = std::make_unique<Stream>(stack.back()->device);
  *stream = made.get();
  std::lock_guard lock(world().mutex);
  world().streams.push_back(std::move(made));
  return ok;
}
int cuStreamDestroy_v2(void* stream) {
  enter("cuStreamDestroy_v2");
  std::unique_ptr<Stream> ended;
  std::lock_guard lock(world().mutex);
  for (auto at = world().streams.begin(); at != world().streams.end(); ++at) {
    if (at->get() != stream) continue;
    ended = std::move(*at);
    world().streams.erase(at);
    break;
  }
  if (!ended) return invalid_handle;
  const std::lock_guard inside(ended->mutex);
  if (ended->added != ended->done) ++world().misuse;
  ended->thread.request_stop();
  ended->thread.detach();
  world().ended_streams.push_back(std::move(ended));  // its thread may be inside the work
  return ok;
}
int cuStreamIsCapturing(void* stream, int* state) {
  const int status = enter_here("cuStreamIsCapturing");
  if (status != ok) return status;
  const Stream* const one = stream_of(stream);
  if (one == nullptr) return invalid_handle;
  *state = one->captured;
  return ok;
}
int cuEventCreate(void** event, unsigned) {
  const int status = enter_here("cuEventCreate");
  if (status != ok) return status;
  auto made = std::make_unique<Event>();
  made->device = stack.back()->device;
  *event = made.get();
  const std::lock_guard lock(world().mutex);
  world().events.push_back(std::move(made));
  return ok;
}
int cuEventDestroy_v2(void*) { return enter("cuEventDestroy_v2"); }  // streams may still know it: kept
int cuEventRecord(void* event, void* handle) {
  const int status = enter_here("cuEventRecord");
  if (status != ok) return status;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr || stream->device != static_cast<Event*>(event)->device) return invalid_handle;
  auto* const one = static_cast<Event*>(event);
  stream->add([one, number = ++one->recorded] { one->reached = number; });
  return ok;
}
int cuEventQuery(void* event) {
  const int status = enter("cuEventQuery");
  if (status != ok) return status;
  const auto* const one = static_cast<Event*>(event);
  if (world().contexts[one->device].lost) return uncorrectable;
  return one->reached == one->recorded ? ok : not_ready;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, void* stream) {
  const int status = enter_here("cuMemcpyHtoDAsync_v2");
  return status != ok ? status : copy(to, const_cast<void*>(from), size, stream, true);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream) {
  const int status = enter_here("cuMemcpyDtoHAsync_v2");
  return status != ok ? status : copy(from, to, size, stream, false);
}
// As CUDA 12.8 has it. The attributes are of order and places, of which nothing here depends.
int cuMemcpyBatchAsync(uint64_t* to, uint64_t* from, size_t* sizes, size_t count, void* attributes, size_t* first,
                       size_t attribute_count, size_t* failed, void* stream) {
  int status = enter_here("cuMemcpyBatchAsync");
  if (status != ok) return status;
  *failed = SIZE_MAX;
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (attributes == nullptr || attribute_count != 1 || *first != 0 || number <= 2) return invalid_value;
  for (size_t i = 0; i < count && status == ok; ++i) {
    status = copy(to[i], reinterpret_cast<void*>(from[i]), sizes[i], stream, true);
    if (status != ok) *failed = i;
  }
  return status;
}

// Memory of one process in another. A real driver refuses the process that owns it; this one lets client and server of
// a test be in one process.
int cuDeviceGetUuid(void* uuid, int device) {
  const std::string name = "double-device-" + std::to_string(device) + "!";
  std::memcpy(uuid, name.data(), 16);
  return enter("cuDeviceGetUuid");
}
int cuMemGetAddressRange_v2(uint64_t* begin, size_t* size, uint64_t address) {
  const int status = enter_here("cuMemGetAddressRange_v2");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const Allocation* one = find(address, 1, begin);
  if (one == nullptr) return invalid_value;
  *size = one->size;
  return ok;
}
int cuIpcGetMemHandle(HandleBytes* bytes, uint64_t address) {
  const int status = enter_here("cuIpcGetMemHandle");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const Allocation* one = find(address, 1);
  struct stat file{};
  if (one == nullptr || one->memfd < 0 || ::fstat(one->memfd, &file) != 0) return invalid_value;
  Handle handle{
      .process = ::getpid(), .memfd = one->memfd, .device = one->device, .inode = file.st_ino, .size = one->size};
  handle.check = handle.sum();
  std::memcpy(bytes->bytes, &handle, sizeof handle);
  return ok;
}
int cuIpcOpenMemHandle_v2(uint64_t* address, HandleBytes bytes, unsigned flags) {
  const int status = enter_here("cuIpcOpenMemHandle_v2");
  if (status != ok) return status;
  Handle handle;
  std::memcpy(&handle, bytes.bytes, sizeof handle);
  if (flags != 1 || handle.magic != Handle::magic_value || handle.check != handle.sum()) return invalid_value;
  if (handle.device != stack.back()->device) return invalid_context;
  {
    // Opened again: the same mapping, counted.
    std::lock_guard lock(world().mutex);
    for (auto& [begin, one] : world().allocations) {
      if (one.imported == 0 || one.inode != handle.inode) continue;
      ++one.imported;
      *address = begin;
      return ok;
    }
  }
  *address = import(handle);
  return *address != 0 ? ok : invalid_value;
}
int cuIpcCloseMemHandle(uint64_t address) {
  const int status = enter_here("cuIpcCloseMemHandle");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || found->second.imported == 0) return invalid_value;
  if (found->second.physical != nullptr) return invalid_value;
  if (--found->second.imported == 0) forget(found);
  return ok;
}

// For programs that bring their own device memory (tests/gpu/on_device.py).
int cuMemAlloc_v2(uint64_t* address, size_t size) {
  const int status = enter_here("cuMemAlloc_v2");
  if (status != ok) return status;
  *address = allocate(stack.back()->device, size, false, nullptr);
  return *address != 0 ? ok : out_of_memory;
}
int cuMemFree_v2(uint64_t address) {
  const int status = enter_here("cuMemFree_v2");
  return status != ok ? status : double_free(address) ? ok : invalid_value;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t size) {
  const int status = enter_here("cuMemcpyHtoD_v2");
  if (status != ok) return status;
  if (!each_part(to, size, -1, [](std::byte*, size_t) {})) return invalid_value;
  double_poke(to, from, size);
  spoil_device("cuMemcpyHtoD_v2", to, size);
  return ok;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size) {
  const int status = enter_here("cuMemcpyDtoH_v2");
  if (status != ok) return status;
  if (!each_part(from, size, -1, [](std::byte*, size_t) {})) return invalid_value;
  double_peek(to, from, size);
  spoil("cuMemcpyDtoH_v2", {static_cast<std::byte*>(to), size});
  return ok;
}
int cuStreamSynchronize(void* handle) {
  const int status = enter_here("cuStreamSynchronize");
  if (status != ok) return status;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return invalid_handle;
  stream->drain();
  return ok;
}

int double_platform() { return DOUBLE_PLATFORM; }
uint64_t double_allocate(int device, size_t size) { return allocate(device, size, false, nullptr); }
uint64_t double_allocate_managed(size_t size) { return allocate(0, size, true, nullptr); }
uint64_t double_allocate_at(int device, uint64_t address, size_t size) {
  return allocate(device, size, false, reinterpret_cast<void*>(address));
}
bool double_free(uint64_t address) {
  std::lock_guard lock(world().mutex);
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || found->second.physical != nullptr) return false;
  forget(found);
  return true;
}
void double_peek(void* into, uint64_t from, size_t size) {
  auto* at = static_cast<std::byte*>(into);
  each_part(from, size, -1, [&](const std::byte* bytes, size_t part) {
    std::memcpy(at, bytes, part);
    at += part;
  });
}
void double_poke(uint64_t to, const void* from, size_t size) {
  const auto* at = static_cast<const std::byte*>(from);
  each_part(to, size, -1, [&](std::byte* bytes, size_t part) {
    std::memcpy(bytes, at, part);
    at += part;
  });
}

void double_delay(unsigned microseconds) { world().delay = microseconds; }
uint64_t double_stream(int device) {
  auto made = std::make_unique<Stream>(device);
  const auto handle = reinterpret_cast<uint64_t>(made.get());
  std::lock_guard lock(world().mutex);
  world().streams.push_back(std::move(made));
  return handle;
}
void double_hold(uint64_t stream, bool held) { stream_of(reinterpret_cast<void*>(stream))->held = held; }
void double_capture(uint64_t stream, bool captured) { stream_of(reinterpret_cast<void*>(stream))->captured = captured; }
void double_fill(uint64_t stream, uint64_t to, int value, size_t size) {
  stream_of(reinterpret_cast<void*>(stream))->add([=] {
    each_part(to, size, -1, [&](std::byte* bytes, size_t part) { std::memset(bytes, value, part); });
  });
}
void double_hold_all(bool held) { world().held = held; }

void double_fail(const char* call, int status, unsigned after) {
  std::lock_guard lock(world().mutex);
  world().failures.erase(call);
  if (status != 0) world().failures[call] = {status, world().calls[call] + after};
}
void double_fail_some(const char* call, int status, unsigned after, unsigned count) {
  std::lock_guard lock(world().mutex);
  const unsigned first = world().calls[call] + after;
  world().failures[call] = {status, first, first + count};
}
void double_flip_at(const char* call, uint64_t address, unsigned after) {
  std::lock_guard lock(world().mutex);
  world().flips[call] = {address, world().calls[call] + after};
}
void double_slow(const char* call, unsigned microseconds) {
  std::lock_guard lock(world().mutex);
  world().slow[call] = microseconds;
}
void double_block(const char* call, bool blocked) {
  const std::lock_guard lock(world().mutex);
  if (blocked) world().blocked.insert(call);
  if (!blocked) world().blocked.erase(call);
  world().let_go.notify_all();
}
unsigned double_blocked() {
  const std::lock_guard lock(world().mutex);
  return world().waiting;
}
void double_lose(int device, bool lost) {
  const std::lock_guard lock(world().mutex);
  world().contexts[device].lost = lost;
  for (auto& [address, one] : world().locked) one.stale = one.stale || (lost && one.device == device);
}
unsigned double_calls(const char* call) {
  std::lock_guard lock(world().mutex);
  return world().calls[call];
}
unsigned double_all_calls() {
  const std::lock_guard lock(world().mutex);
  unsigned all = 0;
  for (const auto& [call, times] : world().calls) all += times;
  return all;
}
unsigned double_pageable() { return world().pageable; }
unsigned double_misuse() { return world().misuse; }
uint64_t double_allocated() {
  std::lock_guard lock(world().mutex);
  uint64_t all = 0;
  for (const auto& [address, one] : world().allocations) all += one.imported == 0 ? one.size : 0;
  return all;
}
uint64_t double_mapped() {
  std::lock_guard lock(world().mutex);
  uint64_t all = 0;
  for (const auto& [address, one] : world().allocations) all += one.imported != 0 ? one.size : 0;
  return all;
}
unsigned double_locked() {
  std::lock_guard lock(world().mutex);
  return static_cast<unsigned>(
      std::ranges::count_if(world().locked, [](const auto& one) { return !one.second.stale; }));
}
void double_reset_counts() {
  std::lock_guard lock(world().mutex);
  world().calls.clear();
  world().failures.clear();
  world().slow.clear();
  world().flips.clear();
  world().blocked.clear();
  world().let_go.notify_all();
  world().pageable = world().misuse = 0;
}
}
