// What tests over the driver double share.
#pragma once

#include <filesystem>

#include "the_double.h"
#include "world.h"

namespace verbena::matrix {

inline DeviceKind kind() { return static_cast<DeviceKind>(double_platform()); }
// How `verify_device` checks: AMD's driver takes no text of a kernel.
inline DeviceVerified best_check() { return is_hip() ? DeviceVerified::read_back : DeviceVerified::kernel; }

// Some tests of this program in a process of its own, with that variable: 0 if they pass.
inline int run_this_program(const std::string& variable, const std::string& tests) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  return std::system(("exec env '" + variable + "' '" + program + "' --gtest_filter=" + tests).c_str());
}

// Memory of a device of the double, for one test.
class OnDevice {
 public:
  explicit OnDevice(size_t size, int device = 0) : size_(size), address_(double_allocate(device, size)) {}
  ~OnDevice() { free(); }
  OnDevice(const OnDevice&) = delete;
  void free() {
    if (address_ != 0) double_free(address_);
    address_ = 0;
  }
  uint64_t address() const { return address_; }
  DeviceBuffer part(size_t offset, size_t size) const {
    return {.kind = kind(), .address = address_ + offset, .size = size};
  }
  DeviceBuffer all() const { return part(0, size_); }
  std::vector<std::byte> bytes(size_t offset, size_t size) const {
    std::vector<std::byte> out(size);
    double_peek(out.data(), address_ + offset, size);
    return out;
  }
  void set(const std::vector<std::byte>& bytes) { double_poke(address_, bytes.data(), bytes.size()); }

 private:
  size_t size_;
  uint64_t address_;
};

// Pieces of physical memory, mapped side by side, as PyTorch's expandable segments have them.
class InPieces {
 public:
  explicit InPieces(std::vector<size_t> sizes, int device = 0, bool shareable = true)
      : sizes_(std::move(sizes)), device_(device) {
    for (const size_t size : sizes_) size_ += size;
    address_ = double_map_pieces(device, sizes_.data(), sizes_.size(), shareable);
    EXPECT_NE(address_, 0u);
  }
  ~InPieces() { EXPECT_TRUE(double_unmap_pieces(address_, size_)); }
  InPieces(const InPieces&) = delete;

  uint64_t address() const { return address_; }
  size_t size() const { return size_; }
  DeviceBuffer part(size_t offset, size_t size) const {
    return {.kind = kind(), .address = address_ + offset, .size = size};
  }
  DeviceBuffer all() const { return part(0, size_); }
  std::vector<std::byte> bytes(size_t offset, size_t size) const {
    std::vector<std::byte> out(size);
    double_peek(out.data(), address_ + offset, size);
    return out;
  }
  void set(const std::vector<std::byte>& bytes, size_t offset = 0) {
    double_poke(address_ + offset, bytes.data(), bytes.size());
  }
  // Other physical memory for that piece.
  void replace(size_t number) {
    size_t at = 0;
    for (size_t i = 0; i < number; ++i) at += sizes_[i];
    EXPECT_TRUE(double_replace_piece(device_, address_ + at, sizes_[number]));
  }

 private:
  std::vector<size_t> sizes_;
  int device_;
  size_t size_ = 0;
  uint64_t address_ = 0;
};

}  // namespace verbena::matrix
