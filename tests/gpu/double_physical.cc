// The double's virtual memory API: physical memory, mapped at reserved addresses, and handed to other processes as file
// descriptors. It refuses what a driver refuses: sizes that are not of its granularity, mappings of more than there is,
// mappings over others, copies before access was given, and descriptors that are not its own.
#include "double.h"
#include "double_world.h"

using namespace cuda_double;

namespace {

constexpr size_t granularity = size_t{2} << 20;
constexpr int pinned = 1, on_device = 1, by_descriptor = 1, both = 3;

struct Place {
  int type = 0, id = 0;
};
struct Properties {
  int type = 0, handle_types = 0;
  Place place;
  void* metadata = nullptr;
  unsigned char flags[8] = {};
};
struct Access {
  Place place;
  int flags = 0;
};
// Behind the bytes of the file.
struct Label {
  static constexpr uint64_t magic_value = 0x6c61636973796870ull;
  uint64_t magic = magic_value;
  uint64_t size = 0;
  int32_t device = 0, zero = 0;
};

bool is_whole(uint64_t number) { return number != 0 && number % granularity == 0; }

// Gives it a handle, with one reference. Under the lock.
uint64_t add(std::shared_ptr<Physical> physical) {
  physical->handle = 0x7000'0000 + world().next_id++;
  physical->handles = 1;
  const uint64_t handle = physical->handle;
  world().handles[handle] = std::move(physical);
  return handle;
}

std::shared_ptr<Physical> create(int device, size_t size, bool shareable) {
  auto made = std::make_shared<Physical>();
  made->device = device;
  made->size = size;
  made->shareable = shareable;
  made->memfd = ::memfd_create("physical-memory", MFD_CLOEXEC);
  const Label label{.size = size, .device = device};
  if (made->memfd < 0 || ::ftruncate(made->memfd, static_cast<off_t>(size)) != 0) return nullptr;
  const auto written = ::pwrite(made->memfd, &label, sizeof label, static_cast<off_t>(size));
  return written == static_cast<ssize_t>(sizeof label) ? made : nullptr;
}

// Within one reservation. Under the lock.
bool is_reserved(uint64_t address, size_t size) {
  auto at = world().reservations.upper_bound(address);
  if (at == world().reservations.begin()) return false;
  --at;
  const uint64_t offset = address - at->first;
  return offset < at->second && size <= at->second - offset;
}
bool is_free(uint64_t address, size_t size) {
  const auto next = world().allocations.lower_bound(address);
  if (next != world().allocations.end() && next->first < address + size) return false;
  return find(address, 1) == nullptr;
}

// Calls `use` for each mapping of the range, which must begin and end with mappings. Under the lock.
template <class Use>
bool each_mapping(uint64_t address, size_t size, Use use) {
  std::vector<std::map<uint64_t, Allocation>::iterator> found;
  for (uint64_t at = address; at < address + size;) {
    const auto mapping = world().allocations.find(at);
    if (mapping == world().allocations.end() || mapping->second.physical == nullptr) return false;
    if (mapping->second.size > address + size - at) return false;
    found.push_back(mapping);
    at += mapping->second.size;
  }
  for (const auto& mapping : found) use(mapping);
  return size != 0;
}

}  // namespace

extern "C" {

int cuMemCreate(uint64_t* handle, size_t size, const Properties* properties, unsigned long long flags) {
  const int status = enter("cuMemCreate");
  if (status != ok) return status;
  const Place& place = properties->place;
  if (!is_whole(size) || flags != 0 || properties->type != pinned) return invalid_value;
  if (place.type != on_device || place.id < 0 || place.id >= devices) return invalid_device;
  auto made = create(place.id, size, (properties->handle_types & by_descriptor) != 0);
  if (made == nullptr) return out_of_memory;
  std::lock_guard lock(world().mutex);
  *handle = add(std::move(made));
  return ok;
}
int cuMemRelease(uint64_t handle) {
  const int status = enter("cuMemRelease");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().handles.find(handle);
  if (found == world().handles.end()) return invalid_value;
  if (--found->second->handles == 0) world().handles.erase(found);
  return ok;
}
// The handle that it was made with, also if that had been released.
int cuMemRetainAllocationHandle(uint64_t* handle, void* address) {
  const int status = enter("cuMemRetainAllocationHandle");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const Allocation* const one = find(reinterpret_cast<uint64_t>(address), 1);
  if (one == nullptr || one->physical == nullptr) return invalid_value;
  ++one->physical->handles;
  world().handles[one->physical->handle] = one->physical;
  *handle = one->physical->handle;
  return ok;
}
int cuMemGetAllocationPropertiesFromHandle(Properties* properties, uint64_t handle) {
  const int status = enter("cuMemGetAllocationPropertiesFromHandle");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().handles.find(handle);
  if (found == world().handles.end()) return invalid_value;
  *properties = {.type = pinned,
                 .handle_types = found->second->shareable ? by_descriptor : 0,
                 .place = {on_device, found->second->device}};
  return ok;
}
int cuMemExportToShareableHandle(void* into, uint64_t handle, int type, unsigned long long flags) {
  const int status = enter("cuMemExportToShareableHandle");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || type != by_descriptor || flags != 0) return invalid_value;
  if (!found->second->shareable) return invalid_value;
  const int descriptor = ::fcntl(found->second->memfd, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return out_of_memory;
  *static_cast<int*>(into) = descriptor;
  return ok;
}
// The descriptor stays its owner's.
int cuMemImportFromShareableHandle(uint64_t* handle, void* from, int type) {
  const int status = enter("cuMemImportFromShareableHandle");
  if (status != ok) return status;
  const int descriptor = static_cast<int>(reinterpret_cast<intptr_t>(from));
  struct stat file{};
  Label label{.magic = 0};
  if (type != by_descriptor || ::fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) return invalid_value;
  const off_t bytes = file.st_size - static_cast<off_t>(sizeof label);
  if (bytes <= 0 || ::pread(descriptor, &label, sizeof label, bytes) != static_cast<ssize_t>(sizeof label)) {
    return invalid_value;
  }
  if (label.magic != Label::magic_value || label.size != static_cast<uint64_t>(bytes)) return invalid_value;
  auto opened = std::make_shared<Physical>();
  opened->device = label.device;
  opened->size = label.size;
  opened->imported = true;
  opened->memfd = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (opened->memfd < 0) return out_of_memory;
  std::lock_guard lock(world().mutex);
  *handle = add(std::move(opened));
  return ok;
}
int cuMemAddressReserve(uint64_t* address, size_t size, size_t alignment, uint64_t, unsigned long long flags) {
  const int status = enter("cuMemAddressReserve");
  if (status != ok) return status;
  if (!is_whole(size) || alignment != 0 || flags != 0) return invalid_value;
  void* const place = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return out_of_memory;
  std::lock_guard lock(world().mutex);
  *address = reinterpret_cast<uint64_t>(place);
  world().reservations[*address] = size;
  return ok;
}
int cuMemAddressFree(uint64_t address, size_t size) {
  const int status = enter("cuMemAddressFree");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().reservations.find(address);
  if (found == world().reservations.end() || found->second != size || !is_free(address, size)) return invalid_value;
  ::munmap(reinterpret_cast<void*>(address), size);
  world().reservations.erase(found);
  return ok;
}
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags) {
  const int status = enter("cuMemMap");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || !is_whole(size) || offset != 0 || flags != 0) return invalid_value;
  const std::shared_ptr<Physical>& physical = found->second;
  if (size > physical->size || !is_reserved(address, size) || !is_free(address, size)) return invalid_value;
  void* const bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, physical->memfd, 0);
  if (bytes == MAP_FAILED) return out_of_memory;
  world().allocations[address] = {.device = physical->device,
                                  .size = size,
                                  .bytes = static_cast<std::byte*>(bytes),
                                  .id = world().next_id++,
                                  .imported = physical->imported ? 1u : 0u,
                                  .physical = physical,
                                  .accessible = false};
  return ok;
}
int cuMemUnmap(uint64_t address, size_t size) {
  const int status = enter("cuMemUnmap");
  if (status != ok) return status;
  std::lock_guard lock(world().mutex);
  const bool whole = each_mapping(address, size, [](auto mapping) {
    ::munmap(mapping->second.bytes, mapping->second.size);
    world().allocations.erase(mapping);
  });
  return whole ? ok : invalid_value;
}
int cuMemSetAccess(uint64_t address, size_t size, const Access* wishes, size_t count) {
  const int status = enter("cuMemSetAccess");
  if (status != ok) return status;
  if (count != 1 || wishes->place.type != on_device || wishes->flags != both) return invalid_value;
  std::lock_guard lock(world().mutex);
  const bool whole = each_mapping(address, size, [](auto mapping) { mapping->second.accessible = true; });
  return whole ? ok : invalid_value;
}

// As an allocator with reserved addresses: the handles are released, the mappings keep the memory.
static bool map_new(int device, uint64_t address, size_t size, bool shareable) {
  const Properties properties{
      .type = pinned, .handle_types = shareable ? by_descriptor : 0, .place = {on_device, device}};
  const Access access{.place = {on_device, device}, .flags = both};
  uint64_t handle = 0;
  if (cuMemCreate(&handle, size, &properties, 0) != ok) return false;
  const bool mapped = cuMemMap(address, size, 0, handle, 0) == ok;
  return cuMemRelease(handle) == ok && mapped && cuMemSetAccess(address, size, &access, 1) == ok;
}
uint64_t double_map_pieces(int device, const size_t* sizes, size_t count, bool shareable) {
  size_t all = 0;
  for (size_t i = 0; i < count; ++i) all += sizes[i];
  uint64_t address = 0;
  if (cuMemAddressReserve(&address, all, 0, 0, 0) != ok) return 0;
  uint64_t at = address;
  for (size_t i = 0; i < count; ++i) {
    if (!map_new(device, at, sizes[i], shareable)) return 0;
    at += sizes[i];
  }
  return address;
}
bool double_replace_piece(int device, uint64_t address, size_t size) {
  return cuMemUnmap(address, size) == ok && map_new(device, address, size, true);
}
bool double_unmap_pieces(uint64_t address, size_t size) {
  return cuMemUnmap(address, size) == ok && cuMemAddressFree(address, size) == ok;
}
void double_blind_ids(bool blind) { world().blind = blind; }
unsigned double_reserved() {
  std::lock_guard lock(world().mutex);
  return static_cast<unsigned>(world().reservations.size());
}
unsigned double_handles() {
  std::lock_guard lock(world().mutex);
  return static_cast<unsigned>(world().handles.size());
}
}
