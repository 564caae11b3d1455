#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <limits>

#include "base/aead_cipher.h"

namespace verbena {
namespace {

int length(Bytes bytes) {
  check_aead(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()));
  return static_cast<int>(bytes.size());
}

// Two contexts, since each direction keeps its own tables.
class OpensslAead final : public AeadCipher {
 public:
  OpensslAead(Bytes key, AeadKind kind) {
    check_aead(seal_ != nullptr && open_ != nullptr);
    check_aead(EVP_EncryptInit_ex2(seal_, openssl_cipher(kind), raw_bytes(key.data()), nullptr, nullptr) == 1);
    check_aead(EVP_DecryptInit_ex2(open_, openssl_cipher(kind), raw_bytes(key.data()), nullptr, nullptr) == 1);
  }
  ~OpensslAead() override {  // wipes the key schedules
    EVP_CIPHER_CTX_free(seal_);
    EVP_CIPHER_CTX_free(open_);
  }
  OpensslAead(const OpensslAead&) = delete;
  OpensslAead& operator=(const OpensslAead&) = delete;

  void begin(const AeadNonce& nonce, Bytes context) override {
    int n = 0;
    check_aead(EVP_EncryptInit_ex2(seal_, nullptr, nullptr, raw_bytes(nonce.data()), nullptr) == 1);
    if (!context.empty())
      check_aead(EVP_EncryptUpdate(seal_, nullptr, &n, raw_bytes(context.data()), length(context)) == 1);
  }

  void update(Bytes plain, std::byte* out) override {
    int n = 0;
    if (plain.empty()) return;
    check_aead(EVP_EncryptUpdate(seal_, raw_bytes(out), &n, raw_bytes(plain.data()), length(plain)) == 1);
  }

  void end(AeadTag& tag) override {
    int n = 0;
    check_aead(EVP_EncryptFinal_ex(seal_, raw_bytes(tag.data()), &n) == 1);  // writes nothing: GCM has no padding
    check_aead(EVP_CIPHER_CTX_ctrl(seal_, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
  }

  void seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) override {
    begin(nonce, context);
    update(plain, out);
    end(tag);
  }

  bool open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out) override {
    int n = 0;
    AeadTag given;
    std::copy(tag.begin(), tag.end(), given.begin());
    check_aead(EVP_DecryptInit_ex2(open_, nullptr, nullptr, raw_bytes(nonce.data()), nullptr) == 1);
    if (!context.empty())
      check_aead(EVP_DecryptUpdate(open_, nullptr, &n, raw_bytes(context.data()), length(context)) == 1);
    if (!sealed.empty())
      check_aead(EVP_DecryptUpdate(open_, raw_bytes(out), &n, raw_bytes(sealed.data()), length(sealed)) == 1);
    check_aead(EVP_CIPHER_CTX_ctrl(open_, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(given.size()), given.data()) == 1);
    unsigned char rest[16];
    if (EVP_DecryptFinal_ex(open_, rest, &n) == 1) return true;
    OPENSSL_cleanse(out, sealed.size());
    return false;
  }

 private:
  EVP_CIPHER_CTX* const seal_ = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* const open_ = EVP_CIPHER_CTX_new();
};

}  // namespace

// Fetched once: EVP_aes_256_gcm() looks its implementation up at every init (OpenSSL 3, crypto(7)).
const EVP_CIPHER* openssl_cipher(AeadKind kind) {
  static const EVP_CIPHER* const gcm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  static const EVP_CIPHER* const chacha = EVP_CIPHER_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
  return kind == AeadKind::chacha20_poly1305 ? chacha : gcm;
}

std::unique_ptr<AeadCipher> make_openssl_aead(Bytes key, AeadKind kind) {
  return std::make_unique<OpensslAead>(key, kind);
}

}  // namespace verbena
