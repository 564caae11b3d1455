#include "fabric/local/shared_region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>

namespace verbena::fabric::local {

namespace {

// A multiple of every page size in use (some machines have 64 KiB), so that the rings can be mapped by themselves.
constexpr size_t head_size = 128 * KiB;
static_assert(4096 + permits_max * sizeof(Permit) <= head_size);

constexpr int region_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Each ring twice in a row, so that no record is cut in two: head, ring, ring again, other ring, other ring again. What
// follows in the memfd is mapped in one piece.
struct Part {
  size_t at, offset, size;
};
std::array<Part, SharedRegion::mappings> layout(size_t ring_size) {
  return {{{0, 0, head_size + ring_size},
           {head_size + ring_size, head_size, 2 * ring_size},
           {head_size + 3 * ring_size, head_size + ring_size, ring_size}}};
}

}  // namespace

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
  // The whole range is reserved first, so that no other mapping can take a part of it.
  const size_t size = head_size + 4 * ring_size;
  void* base = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return fail(Errc::out_of_memory, "local: reserve rings", errno);
  SharedRegion region;
  region.mapping_ = Mapping(base, size);
  for (const Part& part : layout(ring_size)) {
    void* at = ::mmap(region.mapping_.data() + part.at, part.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      memfd.get(), static_cast<off_t>(part.offset));
    if (at == MAP_FAILED) return fail(Errc::out_of_memory, "local: map rings", errno);
  }
  region.memfd_ = std::move(memfd);
  region.ring_size_ = ring_size;
  region.message_size_max_ = message_size_max;
  return region;
}

std::byte* SharedRegion::ring(size_t which) const { return mapping_.data() + head_size + which * 2 * ring_size_; }

}  // namespace verbena::fabric::local
