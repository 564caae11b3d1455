// Bytes that are wiped when destroyed: keys, and data decrypted by a key.
#pragma once

#include <openssl/crypto.h>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace verbena {

// Move-only, so that there is one place to wipe. Never resized once filled: a vector that grows leaves a copy behind.
class Secret {
 public:
  Secret() = default;
  explicit Secret(size_t size) : bytes_(size) {}
  explicit Secret(Bytes bytes) : bytes_(bytes.begin(), bytes.end()) {}
  Secret(Secret&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Secret& operator=(Secret&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

  static Secret random(size_t size) {
    Secret made(size);
    fill_random(made.writable());
    return made;
  }
  Secret copy() const { return Secret(bytes()); }

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }
  Bytes bytes() const { return bytes_; }
  MutableBytes writable() { return bytes_; }
  std::string_view text() const { return as_text(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// For a std::string that held a secret temporarily.
inline void wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace verbena
