// A file descriptor and a memory mapping, each with one owner.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/bytes.h"

namespace verbena::fabric::local {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

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
