#include "base/ephemeral_key.h"

#include <openssl/err.h>
#include <openssl/evp.h>

namespace verbena {
namespace {

constexpr const char* algorithm = "X25519";

unsigned char* octets(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }
const unsigned char* octets(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }

// What fails here is of this call: what it leaves in the thread's queue of errors would be taken for one of the next
// TLS connection.
class OwnErrors {
 public:
  OwnErrors() { ERR_set_mark(); }
  ~OwnErrors() { ERR_pop_to_mark(); }
  OwnErrors(const OwnErrors&) = delete;
};

struct FreeContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};

}  // namespace

void EphemeralKey::Free::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

bool EphemeralKey::available() {
  static const bool has = [] {
    const OwnErrors errors;
    EVP_KEYEXCH* const exchange = EVP_KEYEXCH_fetch(nullptr, algorithm, nullptr);
    EVP_KEYEXCH_free(exchange);
    return exchange != nullptr;
  }();
  return has;
}

Result<EphemeralKey> EphemeralKey::from(const Secret& private_key) {
  const OwnErrors errors;
  EphemeralKey made;
  const Bytes bytes = private_key.bytes();
  if (bytes.size() != size) return fail(Errc::invalid_argument, "key exchange: a private key has 32 bytes");
  made.key_.reset(EVP_PKEY_new_raw_private_key_ex(nullptr, algorithm, nullptr, octets(bytes.data()), bytes.size()));
  size_t length = size;
  if (made.key_ == nullptr || EVP_PKEY_get_raw_public_key(made.key_.get(), octets(made.public_.data()), &length) != 1) {
    return fail(Errc::unsupported, "key exchange: this machine's OpenSSL has no X25519");
  }
  return made;
}

// By the random bytes that all keys here are made of, and not by OpenSSL's generator: a simulated run repeats itself.
Result<EphemeralKey> EphemeralKey::make() { return from(Secret::random(size)); }

Result<Secret> EphemeralKey::agree(const Public& other) {
  const OwnErrors errors;
  const auto own = std::move(key_);
  if (own == nullptr) return fail(Errc::invalid_argument, "key exchange: this key was used before");
  const std::unique_ptr<EVP_PKEY, Free> peer(
      EVP_PKEY_new_raw_public_key_ex(nullptr, algorithm, nullptr, octets(other.data()), other.size()));
  const std::unique_ptr<EVP_PKEY_CTX, FreeContext> context(EVP_PKEY_CTX_new_from_pkey(nullptr, own.get(), nullptr));
  Secret shared(size);
  size_t length = size;
  // OpenSSL refuses a secret of zeros itself, by a comparison in constant time (RFC 7748, section 6.1).
  if (peer == nullptr || context == nullptr || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1 ||
      EVP_PKEY_derive(context.get(), octets(shared.writable().data()), &length) != 1 || length != size) {
    return fail(Errc::invalid_argument, "key exchange: the other side's key gives no secret");
  }
  return shared;
}

}  // namespace verbena
