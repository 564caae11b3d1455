// SHA-256 and HMAC-SHA256 for signatures: short texts, many times a second, nothing allocated.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace verbena {

using Sha256 = std::array<std::byte, 32>;
Sha256 sha256_of(Bytes data);

// HMAC-SHA256 (RFC 2104) under one key: the hash state after the key's two pads is computed once.
class HmacSha256 {
 public:
  HmacSha256() = default;  // unusable until one with a key is assigned
  explicit HmacSha256(Bytes key);
  Sha256 sign(Bytes data) const;

 private:
  using Chain = std::array<uint32_t, 8>;  // SHA-256's state between two blocks
  Chain inner_{}, outer_{};
};

}  // namespace verbena
