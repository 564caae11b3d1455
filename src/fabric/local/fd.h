// A memory mapping with one owner, and memory that has a descriptor.
#pragma once

#include <sys/mman.h>

#include <utility>

#include "base/bytes.h"
#include "base/fd.h"

namespace verbena::fabric::local {

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, size_t size) : base_(base), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }
  std::byte* data() const { return static_cast<std::byte*>(base_); }
  size_t size() const { return size_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
};

// A memfd that can be sealed. `name` shows up in /proc only.
inline Fd make_memfd(const char* name) {
  constexpr unsigned noexec_seal = 0x8;  // MFD_NOEXEC_SEAL, Linux 6.3: some machines refuse memfds without it
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | noexec_seal));
  return fd ? std::move(fd) : Fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

}  // namespace verbena::fabric::local
