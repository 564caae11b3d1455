// An issuer's public keys in their published form (JSON Web Key Set, RFC 7517 and 7518 section 6), and verification by
// them. OpenSSL does the arithmetic.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "sign_in/jwt.h"

namespace verbena::sign_in {

struct FreeKey {
  void operator()(EVP_PKEY* key) const;
};

class VerificationKey {
 public:
  enum class Kind : uint8_t { rsa, p256, p384, p521, ed25519 };
  VerificationKey(std::string id, Kind kind, std::optional<Algorithm> only, EVP_PKEY* key)
      : id_(std::move(id)), kind_(kind), only_(only), key_(key) {}

  const std::string& id() const { return id_; }
  // Whether the key can make signatures of that algorithm: the key decides, not the token.
  bool fits(Algorithm algorithm) const;
  bool verifies(Algorithm algorithm, std::string_view signed_part, Bytes signature) const;

 private:
  std::string id_;
  Kind kind_;
  std::optional<Algorithm> only_;  // the issuer's declared use
  std::unique_ptr<EVP_PKEY, FreeKey> key_;
};

struct KeySet {
  std::vector<VerificationKey> keys;
};

inline constexpr size_t key_set_bytes_max = 256 * 1024;
inline constexpr size_t keys_max = 64;

// Unusable keys (for encryption, of other kinds, weak ones) are left out. malformed: not a key set, or one with more
// keys than keys_max.
Result<KeySet> parse_key_set(std::string_view text);

enum class Verdict : uint8_t {
  good,
  bad,          // the key exists, and the signature does not match
  unknown_key,  // no key of that id, or of that algorithm
};
Verdict verify(const KeySet& keys, const Jwt& token);

}  // namespace verbena::sign_in
