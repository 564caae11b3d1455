// A pair of keys of X25519 (RFC 7748) for one exchange with one peer, and the secret that comes out of it. The public
// keys do not lead to it, so when both private keys are erased nothing does.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "base/secret.h"

typedef struct evp_pkey_st EVP_PKEY;

namespace verbena {

class EphemeralKey {
 public:
  static constexpr size_t size = 32;  // of either key, and of the shared secret
  using Public = std::array<std::byte, size>;

  // Whether OpenSSL has X25519 here: a policy of the machine (FIPS) may forbid it.
  static bool available();
  // Of random bytes, or of a known private key (test vectors). unsupported: not available().
  static Result<EphemeralKey> make();
  static Result<EphemeralKey> from(const Secret& private_key);

  const Public& public_key() const { return public_; }

  // The secret that the owner of the private key of `other` computes, too. It works once: the private key is erased
  // then, whatever comes out. invalid_argument: `other` is a point of low order, for which the secret would be zero
  // whatever the private key is.
  Result<Secret> agree(const Public& other);

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const;  // wipes it
  };
  std::unique_ptr<EVP_PKEY, Free> key_;
  Public public_{};
};

}  // namespace verbena
