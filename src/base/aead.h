// Authenticated encryption: AES-256-GCM (NIST SP 800-38D), or ChaCha20-Poly1305 (RFC 8439) for processors without AES
// instructions. Keys, nonces and tags of both have the same sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace verbena {

inline constexpr size_t aead_key_size = 32;
inline constexpr size_t aead_nonce_size = 12;
inline constexpr size_t aead_tag_size = 16;

using AeadNonce = std::array<std::byte, aead_nonce_size>;
using AeadTag = std::array<std::byte, aead_tag_size>;

enum class AeadKind : uint8_t { aes_256_gcm = 1, chacha20_poly1305 = 2 };
// Which of them is faster on this processor.
AeadKind fastest_aead();

// A cipher for one key, scheduled once. The caller must never use a nonce twice under one key. Not thread-safe.
class Aead {
 public:
  explicit Aead(Bytes key, AeadKind kind = AeadKind::aes_256_gcm);  // aead_key_size bytes
  Aead(Aead&& other) noexcept;
  Aead& operator=(Aead&& other) noexcept;
  ~Aead();

  // `out` has the size of `plain` and may be the same memory. `context` is authenticated, not stored.
  void seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag);
  // seal() in pieces: begin, update ..., end. In between only open() may be called.
  void begin(const AeadNonce& nonce, Bytes context = {});
  void update(Bytes plain, std::byte* out);
  void end(AeadTag& tag);
  // False: not encrypted under this key, nonce and context; `out` is then wiped.
  [[nodiscard]] bool open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out);

 private:
  struct Context;
  Context* context_ = nullptr;
};

}  // namespace verbena
