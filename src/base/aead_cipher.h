// What an Aead (base/aead.h) is made of: one key's cipher by one library. For base/aead.cc and its tests.
#pragma once

#include <openssl/types.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/aead.h"

namespace verbena {

// The calls mean what Aead's do; `tag` of open() has aead_tag_size bytes. Where a key schedule ends it is wiped.
class AeadCipher {
 public:
  virtual ~AeadCipher() = default;
  virtual void seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) = 0;
  virtual void begin(const AeadNonce& nonce, Bytes context) = 0;
  virtual void update(Bytes plain, std::byte* out) = 0;
  virtual void end(AeadTag& tag) = 0;
  virtual bool open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out) = 0;
};

// OpenSSL's, of its default provider or of the one that the machine is configured with. Null: forbidden by it.
const EVP_CIPHER* openssl_cipher(AeadKind kind);
std::unique_ptr<AeadCipher> make_openssl_aead(Bytes key, AeadKind kind);

// AES-256-GCM by VAES and AVX-512, of Intel's ipsec-mb: for builds against an OpenSSL that has no such loop
// (cmake/dependencies.cmake). Others have no such cipher. Whether this process has:
bool has_vaes_gcm();
std::unique_ptr<AeadCipher> make_vaes_gcm(Bytes key);  // only if it has
std::string vaes_gcm_library();                        // "ipsec-mb 1.3.0"; empty: not in this build

inline void check_aead(bool ok) {
  if (!ok) std::abort();  // memory is gone, or the caller asks for what no cipher does: see aead_available()
}
inline unsigned char* raw_bytes(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }
inline const unsigned char* raw_bytes(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }

}  // namespace verbena
