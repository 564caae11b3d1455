#include "fabric/local/shared_region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace verbena::fabric::local {

namespace {

// A multiple of every page size in use (some machines have 64 KiB), so that the rings can be mapped by themselves.
constexpr size_t head_size = 128 * KiB;
static_assert(4096 + permits_max * sizeof(Permit) <= head_size);

constexpr int region_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<Mapping> map_twice(int fd, size_t offset, size_t size) {
  // Reserve the whole range first, so that its second half cannot be taken by another mapping.
  void* base = ::mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return fail(Errc::out_of_memory, "local: reserve ring", errno);
  Mapping mapping(base, 2 * size);
  for (size_t half : {size_t{0}, size}) {
    void* at = ::mmap(mapping.data() + half, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                      static_cast<off_t>(offset));
    if (at == MAP_FAILED) return fail(Errc::out_of_memory, "local: map ring", errno);
  }
  return mapping;
}

Result<SharedRegion> SharedRegion::create(size_t ring_size, size_t message_size_max) {
  Fd memfd = make_memfd("verbena-ring");
  if (!memfd) return fail(Errc::out_of_memory, "local: memfd_create", errno);
  if (::ftruncate(memfd.get(), static_cast<off_t>(head_size + 2 * ring_size)) != 0) {
    return fail(Errc::out_of_memory, "local: size ring", errno);
  }
  if (::fcntl(memfd.get(), F_ADD_SEALS, region_seals) != 0) return fail(Errc::internal, "local: seal ring", errno);
  return map(std::move(memfd), ring_size, message_size_max);
}

Result<SharedRegion> SharedRegion::attach(Fd memfd, size_t ring_size, size_t message_size_max) {
  struct stat status{};
  if (ring_size == 0 || (ring_size & (ring_size - 1)) != 0 || ring_size % 4096 != 0 || ring_size > GiB ||
      message_size_max == 0 || message_size_max > ring_size || record_size(message_size_max) > ring_size) {
    return fail(Errc::malformed, "local: ring sizes");
  }
  if (::fstat(memfd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) != head_size + 2 * ring_size) {
    return fail(Errc::malformed, "local: ring memfd has another size");
  }
  return map(std::move(memfd), ring_size, message_size_max);
}

Result<SharedRegion> SharedRegion::map(Fd memfd, size_t ring_size, size_t message_size_max) {
  SharedRegion region;
  void* head = ::mmap(nullptr, head_size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (head == MAP_FAILED) return fail(Errc::out_of_memory, "local: map ring control", errno);
  region.head_ = Mapping(head, head_size);
  VB_ASSIGN(region.to_server_, map_twice(memfd.get(), head_size, ring_size));
  VB_ASSIGN(region.to_client_, map_twice(memfd.get(), head_size + ring_size, ring_size));
  region.memfd_ = std::move(memfd);
  region.ring_size_ = ring_size;
  region.message_size_max_ = message_size_max;
  return region;
}

}  // namespace verbena::fabric::local
