#include "fabric/tcp/lending.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#include "fabric/tcp/link.h"

namespace verbena::fabric::tcp {
namespace {

constexpr size_t page_size = 4096, huge_page_size = 2 * MiB;

class TcpLent final : public Lent {
 public:
  TcpLent(std::shared_ptr<Lending> lending, uint64_t key, MutableBytes memory)
      : lending_(std::move(lending)), descriptor_{0, memory.size(), key}, bytes_(memory) {}
  ~TcpLent() override { revoke(); }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }
  // The link's own thread places the bytes, under this lock: afterwards it finds no window to place them in.
  void revoke() override {
    const std::lock_guard lock(lending_->mutex);
    if (std::exchange(revoked_, true)) return;
    lending_->remove(descriptor_.key);
    if (lending_->link != nullptr) lending_->link->withdrawn(descriptor_.key);
  }

 private:
  std::shared_ptr<Lending> lending_;
  WindowDescriptor descriptor_;
  MutableBytes bytes_;
  bool revoked_ = false;
};

}  // namespace

Lending::Lending() { fill_random(std::as_writable_bytes(std::span(&generation_, 1))); }

uint64_t Lending::add(MutableBytes memory, Access access) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = {.memory = memory, .access = access, .generation = ++generation_, .lent = true};
  return uint64_t{generation_} << 32 | slot;
}

void Lending::remove(uint64_t key) {
  const auto slot = static_cast<uint32_t>(key);
  slots_[slot] = {};
  free_.push_back(slot);
}

MutableBytes Lending::find(uint64_t key, Access access, uint64_t offset, uint64_t size) const {
  const auto slot = static_cast<uint32_t>(key);
  if (slot >= slots_.size()) return {};
  const Slot& found = slots_[slot];
  if (!found.lent || found.generation != key >> 32 || found.access != access) return {};
  if (offset > found.memory.size() || size > found.memory.size() - offset) return {};
  return found.memory.subspan(offset, size);
}

std::unique_ptr<Lent> lend(const std::shared_ptr<Lending>& lending, MutableBytes memory, Access access) {
  const std::lock_guard lock(lending->mutex);
  return std::make_unique<TcpLent>(lending, lending->add(memory, access), memory);
}

Result<std::shared_ptr<MutableBytes>> allocate_pages(size_t size) {
  const size_t page = size >= huge_page_size ? huge_page_size : page_size;
  const size_t rounded = (std::max<size_t>(size, 1) + page - 1) / page * page;
  if (rounded < size) return fail(Errc::too_large, "tcp: allocate");
  // Mapped larger by one page of that size, to align it.
  const size_t mapped = rounded + (page > page_size ? page : 0);
  void* raw = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return fail(Errc::out_of_memory, "tcp: mmap", errno);
  const auto start = (reinterpret_cast<uintptr_t>(raw) + page - 1) / page * page;
  auto* bytes = reinterpret_cast<std::byte*>(start);
  if (page > page_size) ::madvise(bytes, rounded, MADV_HUGEPAGE);  // best effort
  return std::shared_ptr<MutableBytes>(new MutableBytes(bytes, size), [raw, mapped](MutableBytes* owned) {
    ::munmap(raw, mapped);
    delete owned;
  });
}

}  // namespace verbena::fabric::tcp
