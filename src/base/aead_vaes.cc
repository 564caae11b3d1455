#include <openssl/crypto.h>

#include <algorithm>

#include "base/aead_cipher.h"
#include "base/aes_instructions.h"

#ifdef VERBENA_IPSEC_MB

#define NO_COMPAT_IMB_API_053
#include <intel-ipsec-mb.h>
#include <openssl/evp.h>
#include <openssl/provider.h>

#include <string_view>

// In the static library and not in its header, which has the functions of a "manager" alone: a table that names all of
// the library, so that all of it would be linked.
extern "C" {
void aes_keyexp_256_enc_avx512(const void* key, void* expanded);
void aes_gcm_precomp_256_vaes_avx512(gcm_key_data* key);
void aes_gcm_enc_256_vaes_avx512(const gcm_key_data* key, gcm_context_data* state, uint8_t* out, const uint8_t* in,
                                 uint64_t length, const uint8_t* nonce, const uint8_t* context, uint64_t context_length,
                                 uint8_t* tag, uint64_t tag_length);
void aes_gcm_dec_256_vaes_avx512(const gcm_key_data* key, gcm_context_data* state, uint8_t* out, const uint8_t* in,
                                 uint64_t length, const uint8_t* nonce, const uint8_t* context, uint64_t context_length,
                                 uint8_t* tag, uint64_t tag_length);
void aes_gcm_init_256_vaes_avx512(const gcm_key_data* key, gcm_context_data* state, const uint8_t* nonce,
                                  const uint8_t* context, uint64_t context_length);
void aes_gcm_enc_256_update_vaes_avx512(const gcm_key_data* key, gcm_context_data* state, uint8_t* out,
                                        const uint8_t* in, uint64_t length);
void aes_gcm_enc_256_finalize_vaes_avx512(const gcm_key_data* key, gcm_context_data* state, uint8_t* tag,
                                          uint64_t tag_length);
}

namespace verbena {
namespace {

// NIST SP 800-38D, 5.2.1.1: 2^39 - 256 bits under one nonce. The library refuses more, and tells it by a variable that
// all threads share.
constexpr uint64_t gcm_size_max = (uint64_t{1} << 36) - 32;

// One call's state, wiped at its end: it has a block of the key stream.
struct State {
  gcm_context_data data;
  State() = default;
  ~State() { OPENSSL_cleanse(&data, sizeof data); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

class VaesGcm final : public AeadCipher {
 public:
  explicit VaesGcm(Bytes key) {
    aes_keyexp_256_enc_avx512(key.data(), key_.expanded_keys);
    aes_gcm_precomp_256_vaes_avx512(&key_);
  }
  ~VaesGcm() override { OPENSSL_cleanse(&key_, sizeof key_); }
  VaesGcm(const VaesGcm&) = delete;
  VaesGcm& operator=(const VaesGcm&) = delete;

  void seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) override {
    check_aead(plain.size() <= gcm_size_max);
    State state;
    aes_gcm_enc_256_vaes_avx512(&key_, &state.data, raw_bytes(out), raw_bytes(plain.data()), plain.size(),
                                raw_bytes(nonce.data()), raw_bytes(context.data()), context.size(),
                                raw_bytes(tag.data()), tag.size());
  }

  void begin(const AeadNonce& nonce, Bytes context) override {
    aes_gcm_init_256_vaes_avx512(&key_, &pieces_.data, raw_bytes(nonce.data()), raw_bytes(context.data()),
                                 context.size());
  }

  void update(Bytes plain, std::byte* out) override {
    if (plain.empty()) return;
    check_aead(plain.size() <= gcm_size_max - pieces_.data.in_length);
    aes_gcm_enc_256_update_vaes_avx512(&key_, &pieces_.data, raw_bytes(out), raw_bytes(plain.data()), plain.size());
  }

  void end(AeadTag& tag) override {
    aes_gcm_enc_256_finalize_vaes_avx512(&key_, &pieces_.data, raw_bytes(tag.data()), tag.size());
    OPENSSL_cleanse(&pieces_.data, sizeof pieces_.data);
  }

  bool open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out) override {
    check_aead(sealed.size() <= gcm_size_max);
    State state;
    // `tag` may lie where `out` does.
    AeadTag given, made;
    std::copy(tag.begin(), tag.end(), given.begin());
    aes_gcm_dec_256_vaes_avx512(&key_, &state.data, raw_bytes(out), raw_bytes(sealed.data()), sealed.size(),
                                raw_bytes(nonce.data()), raw_bytes(context.data()), context.size(),
                                raw_bytes(made.data()), made.size());
    const bool right = CRYPTO_memcmp(made.data(), given.data(), made.size()) == 0;
    OPENSSL_cleanse(made.data(), made.size());  // the tag of what was given: a forger lacks it
    if (!right) OPENSSL_cleanse(out, sealed.size());
    return right;
  }

 private:
  alignas(64) gcm_key_data key_;
  State pieces_;  // from begin() to end()
};

// A machine that is told to take another provider's cipher (FIPS, a device) gets that one.
bool is_openssls_own(const EVP_CIPHER* cipher) {
  if (cipher == nullptr) return false;
  const OSSL_PROVIDER* const provider = EVP_CIPHER_get0_provider(cipher);
  return provider != nullptr && std::string_view(OSSL_PROVIDER_get0_name(provider)) == "default";
}

}  // namespace

bool has_vaes_gcm() {
  static const bool has = aes_instructions().vector_aes && aes_instructions().gcm() &&
                          !takes_vector_aes(OpenSSL_version_num()) &&
                          is_openssls_own(openssl_cipher(AeadKind::aes_256_gcm));
  return has;
}

std::unique_ptr<AeadCipher> make_vaes_gcm(Bytes key) { return std::make_unique<VaesGcm>(key); }

std::string vaes_gcm_library() { return "ipsec-mb " IMB_VERSION_STR; }

}  // namespace verbena

#else

namespace verbena {

bool has_vaes_gcm() { return false; }
std::unique_ptr<AeadCipher> make_vaes_gcm(Bytes) { return nullptr; }
std::string vaes_gcm_library() { return {}; }

}  // namespace verbena

#endif
