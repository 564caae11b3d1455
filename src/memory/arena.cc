#include "memory/arena.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/metrics.h"
#include "memory/aside.h"
#include "memory/budget.h"

#if defined(__SANITIZE_ADDRESS__)
#define VERBENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBENA_ASAN 1
#endif
#endif
#ifdef VERBENA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace verbena::memory {
namespace {

// Free memory is poisoned, so that AddressSanitizer finds a use after a lease's return.
void poison([[maybe_unused]] const std::byte* p, [[maybe_unused]] size_t n) {
#ifdef VERBENA_ASAN
  ASAN_POISON_MEMORY_REGION(p, n);
#endif
}
void unpoison([[maybe_unused]] const std::byte* p, [[maybe_unused]] size_t n) {
#ifdef VERBENA_ASAN
  ASAN_UNPOISON_MEMORY_REGION(p, n);
#endif
}

constexpr uint32_t none = UINT32_MAX;
constexpr unsigned orders = 11;  // 4 KiB << 0 .. 4 KiB << 10 = 4 MiB
static_assert(Arena::alignment << (orders - 1) == Arena::lease_size_max);

unsigned order_of(size_t size) {
  return static_cast<unsigned>(std::countr_zero(Arena::class_size(size) / Arena::alignment));
}

// Metrics of all arenas of the process: a server has one.
struct LeaseMetrics {
  metrics::Gauge& leased = metrics::gauge("verbena_memory_leased_bytes", "Bytes of the arena that are leased");
  metrics::Gauge& peak = metrics::gauge("verbena_memory_leased_bytes_max", "Most bytes of the arena leased so far");
  metrics::Counter& full = metrics::counter("verbena_memory_full_total", "Leases that the arena had no room for");
  static LeaseMetrics& of_process() {
    static LeaseMetrics all;
    return all;
  }
};

}  // namespace

// A buddy allocator over 4 KiB pages: blocks split on demand and merge with their buddy on return, so that small leases
// cannot fragment the arena for ever. Its state is outside the mapping: no write of a device can damage it.
struct Arena::Classes {
  struct Page {
    uint32_t next = none;
    uint32_t previous = none;
    uint8_t order = 0;
    bool free = false;  // the first page of a free block of `order`
  };

  explicit Classes(size_t bytes) : pages(bytes / alignment), metrics(LeaseMetrics::of_process()) {
    heads.fill(none);
    for (size_t first = 0; first < pages.size(); first += size_t{1} << (orders - 1)) {
      insert(static_cast<uint32_t>(first), orders - 1);
    }
  }

  void insert(uint32_t page, unsigned order) {
    pages[page] = {heads[order], none, static_cast<uint8_t>(order), true};
    if (heads[order] != none) pages[heads[order]].previous = page;
    heads[order] = page;
  }

  void remove(uint32_t page) {
    Page& p = pages[page];
    (p.previous != none ? pages[p.previous].next : heads[p.order]) = p.next;
    if (p.next != none) pages[p.next].previous = p.previous;
    p.free = false;
  }

  uint32_t take(unsigned wanted) {
    unsigned order = wanted;
    while (order < orders && heads[order] == none) ++order;
    if (order == orders) return none;
    const uint32_t page = heads[order];
    remove(page);
    while (order > wanted) {
      --order;
      insert(page + (uint32_t{1} << order), order);
    }
    leased_bytes += alignment << wanted;
    note_leased();
    return page;
  }

  void give_back(uint32_t page, unsigned order) {
    leased_bytes -= alignment << order;
    note_leased();
    while (order + 1 < orders) {
      const uint32_t buddy = page ^ (uint32_t{1} << order);
      if (!pages[buddy].free || pages[buddy].order != order) break;
      remove(buddy);
      page &= ~(uint32_t{1} << order);
      ++order;
    }
    insert(page, order);
  }

  void note_leased() const {
    const auto now = static_cast<int64_t>(leased_bytes);
    metrics.leased.set(now);
    if (now > metrics.peak.value()) metrics.peak.set(now);
  }

  mutable std::mutex mutex;
  std::vector<Page> pages;
  std::array<uint32_t, orders> heads;
  size_t leased_bytes = 0;
  LeaseMetrics& metrics;
};

Result<std::unique_ptr<Arena>> Arena::create(size_t bytes) {
  if (bytes == 0 || bytes > 16 * TiB) return fail(Errc::invalid_argument, "arena size");
  bytes = (bytes + lease_size_max - 1) / lease_size_max * lease_size_max;
  bool huge = true;
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (p == MAP_FAILED) {
    huge = false;
    // Larger than needed by one block of the largest class, so that the start can be aligned to it.
    p = ::mmap(nullptr, bytes + lease_size_max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               0);
    if (p == MAP_FAILED) return fail(Errc::out_of_memory, "arena: mmap", errno);
    auto* start = static_cast<std::byte*>(p);
    const auto misfit = reinterpret_cast<uintptr_t>(start) % lease_size_max;
    const size_t skip = misfit == 0 ? 0 : lease_size_max - misfit;
    if (skip > 0) ::munmap(start, skip);
    if (skip < lease_size_max) ::munmap(start + skip + bytes, lease_size_max - skip);
    p = start + skip;
    ::madvise(p, bytes, MADV_HUGEPAGE);  // best effort
  }
  // A forked child (the server has none, but a library may fork) must not copy pages that a device writes to.
  ::madvise(p, bytes, MADV_DONTFORK);
  return std::unique_ptr<Arena>(new Arena({static_cast<std::byte*>(p), bytes}, huge));
}

Arena::Arena(MutableBytes mapping, bool huge_pages)
    : mapping_(mapping),
      huge_pages_(huge_pages),
      classes_(std::make_unique<Classes>(mapping.size())),
      budget_(std::make_unique<Budget>(Budget::Limits::of(mapping.size()))) {
  poison(mapping_.data(), mapping_.size());
}

Arena::~Arena() {
  size_t waiting = 0;
  const bool touched = Aside::abandon(mapping_, waiting);
  if (classes_->leased_bytes != waiting) {
    // A lease's holder would write into unmapped memory, or a device into memory in other use.
    std::fprintf(stderr, "verbena: arena destroyed with %zu bytes still leased\n", classes_->leased_bytes);
    std::abort();
  }
  unpoison(mapping_.data(), mapping_.size());
  if (touched) return;  // a device may still write there
  ::munmap(mapping_.data(), mapping_.size());
}

Result<Lease> Arena::lease(size_t size) {
  if (size == 0 || size > lease_size_max) return fail(Errc::invalid_argument, "arena: lease size");
  const unsigned order = order_of(size);
  uint32_t page = take(order);
  // Released memory may be fragmented, so more is requested until a lease fits or nothing is left to release.
  while (page == none && on_pressure_ && on_pressure_(size)) page = take(order);
  if (page == none) {
    classes_->metrics.full.add();
    return fail(Errc::slow_down, "arena is full");
  }
  std::byte* data = mapping_.data() + size_t{page} * alignment;
  unpoison(data, alignment << order);
  return Lease(this, data, size, alignment << order);
}

uint32_t Arena::take(unsigned order) {
  const std::lock_guard lock(classes_->mutex);
  return classes_->take(order);
}

void Arena::give_back(std::byte* data, size_t block) {
  const auto make_free = [this, data, block] {
    poison(data, block);
    const auto page = static_cast<uint32_t>((data - mapping_.data()) / static_cast<ptrdiff_t>(alignment));
    const std::lock_guard lock(classes_->mutex);
    classes_->give_back(page, order_of(block));
  };
  if (Aside::any() && Aside::keeps({data, block}, make_free)) return;
  make_free();
}

size_t Arena::leased_bytes() const {
  const std::lock_guard lock(classes_->mutex);
  return classes_->leased_bytes;
}

bool Arena::contains(const void* p, size_t size) const {
  const auto start = reinterpret_cast<uintptr_t>(mapping_.data());
  const auto at = reinterpret_cast<uintptr_t>(p);
  return at >= start && size <= mapping_.size() && at - start <= mapping_.size() - size;
}

}  // namespace verbena::memory
