#include "fabric/local/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "fabric/local/local.h"

namespace verbena::fabric::local {

namespace {

constexpr size_t page_size = 4096;
constexpr size_t round_to_page(size_t size) { return (size + page_size - 1) & ~(page_size - 1); }

}  // namespace

Result<std::shared_ptr<Slab>> Slab::create(size_t size) {
  static std::atomic<uint64_t> id_next{1};
  std::shared_ptr<Slab> slab(new Slab);
  slab->id_ = id_next.fetch_add(1, std::memory_order_relaxed);
  slab->memfd_ = make_memfd("verbena-window");
  if (!slab->memfd_) return fail(Errc::out_of_memory, "local: memfd_create", errno);
  const int fd = slab->memfd_.get();
  // Backed now, when it can still fail cleanly; the server refuses a memfd with holes.
  int error;
  do {
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  } while (error == EINTR);
  if (error != 0) return fail(Errc::out_of_memory, "local: allocate shared memory", error);
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(Errc::internal, "local: seal shared memory", errno);
  }
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return fail(Errc::out_of_memory, "local: map shared memory", errno);
  slab->mapping_ = Mapping(base, size);
  return slab;
}

// Owned by a handle from allocate().
struct Pool::Piece {
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Slab> slab;
  size_t offset;
  size_t block;
  MutableBytes bytes;
  ~Piece() { pool->give_back(*slab, offset, block); }
};

Result<std::shared_ptr<MutableBytes>> Pool::allocate(size_t size) {
  if (size == 0 || size > TiB) return fail(Errc::invalid_argument, "local: allocation size");
  const size_t block = round_to_page(size);
  std::lock_guard lock(mutex_);
  for (auto& [address, entry] : entries_) {
    const auto fit = std::find_if(entry.free.begin(), entry.free.end(), [&](auto& f) { return f.second >= block; });
    if (fit == entry.free.end()) continue;
    const auto [offset, available] = *fit;
    entry.free.erase(fit);
    if (available > block) entry.free.emplace(offset + block, available - block);
    return hand_out(entry.slab, offset, size);
  }
  // Each slab is larger than the one before, so that few descriptors hold much memory.
  const size_t slab_size = std::min(slab_size_max, slab_size_first << std::min<size_t>(slabs_made_, 2));
  const bool dedicated = block > slab_size / 2;
  VB_ASSIGN(auto slab, Slab::create(dedicated ? block : slab_size));
  Entry entry{.slab = slab, .dedicated = dedicated, .free = {}};
  ++slabs_made_;
  if (!dedicated) {
    entry.free.emplace(block, slab_size - block);
  }
  entries_.emplace(slab->data(), std::move(entry));
  return hand_out(slab, 0, size);
}

std::shared_ptr<MutableBytes> Pool::hand_out(const std::shared_ptr<Slab>& slab, size_t offset, size_t size) {
  auto piece = std::shared_ptr<Piece>(new Piece{.pool = shared_from_this(),
                                                .slab = slab,
                                                .offset = offset,
                                                .block = round_to_page(size),
                                                .bytes = {slab->data() + offset, size}});
  return std::shared_ptr<MutableBytes>(piece, &piece->bytes);
}

void Pool::give_back(const Slab& slab, size_t offset, size_t size) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(slab.data());
  if (found->second.dedicated) {
    entries_.erase(found);
    return;
  }
  auto& free = found->second.free;
  auto at = free.emplace(offset, size).first;
  if (auto next = std::next(at); next != free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free.erase(next);
  }
  if (at != free.begin()) {
    if (auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free.erase(at);
    }
  }
}

std::optional<Pool::Place> Pool::find(Bytes memory) const {
  std::lock_guard lock(mutex_);
  auto after = entries_.upper_bound(memory.data());
  if (after == entries_.begin()) return std::nullopt;
  const auto& slab = std::prev(after)->second.slab;
  const uint64_t offset = memory.data() - slab->data();
  if (offset > slab->size() || memory.size() > slab->size() - offset) return std::nullopt;
  return Place{slab, offset};
}

std::shared_ptr<Pool> make_pool() { return std::make_shared<Pool>(); }

}  // namespace verbena::fabric::local
