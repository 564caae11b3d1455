#include "base/aead.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/aead_available.h"
#include "base/aes_instructions.h"

namespace verbena {
namespace {

void check(bool ok) {
  if (!ok) std::abort();  // OpenSSL fails here only when memory is gone: see aead_available()
}

// Fetched once: EVP_aes_256_gcm() looks its implementation up at every init (OpenSSL 3, crypto(7)).
const EVP_CIPHER* cipher(AeadKind kind) {
  static const EVP_CIPHER* const gcm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  static const EVP_CIPHER* const chacha = EVP_CIPHER_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
  return kind == AeadKind::chacha20_poly1305 ? chacha : gcm;
}

unsigned char* raw(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }
const unsigned char* raw(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }

int length(Bytes bytes) {
  check(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()));
  return static_cast<int>(bytes.size());
}

}  // namespace

// Two contexts, since each direction keeps its own tables.
struct Aead::Context {
  EVP_CIPHER_CTX* seal = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* open = EVP_CIPHER_CTX_new();
  Context() { check(seal != nullptr && open != nullptr); }
  ~Context() {  // wipes the key schedules
    EVP_CIPHER_CTX_free(seal);
    EVP_CIPHER_CTX_free(open);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

bool aead_available(AeadKind kind) { return cipher(kind) != nullptr; }

AeadKind fastest_aead() {
  static const bool aes = aes_instructions().gcm() || !aead_available(AeadKind::chacha20_poly1305);
  return aes ? AeadKind::aes_256_gcm : AeadKind::chacha20_poly1305;
}

Aead::Aead(Bytes key, AeadKind kind) : context_(new Context) {
  check(key.size() == aead_key_size);
  check(EVP_EncryptInit_ex2(context_->seal, cipher(kind), raw(key.data()), nullptr, nullptr) == 1);
  check(EVP_DecryptInit_ex2(context_->open, cipher(kind), raw(key.data()), nullptr, nullptr) == 1);
}

Aead::Aead(Aead&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
Aead& Aead::operator=(Aead&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}
Aead::~Aead() { delete context_; }

void Aead::begin(const AeadNonce& nonce, Bytes context) {
  int n = 0;
  check(EVP_EncryptInit_ex2(context_->seal, nullptr, nullptr, raw(nonce.data()), nullptr) == 1);
  if (!context.empty())
    check(EVP_EncryptUpdate(context_->seal, nullptr, &n, raw(context.data()), length(context)) == 1);
}

void Aead::update(Bytes plain, std::byte* out) {
  int n = 0;
  if (plain.empty()) return;
  check(EVP_EncryptUpdate(context_->seal, raw(out), &n, raw(plain.data()), length(plain)) == 1);
}

void Aead::end(AeadTag& tag) {
  int n = 0;
  check(EVP_EncryptFinal_ex(context_->seal, raw(tag.data()), &n) == 1);  // writes nothing: GCM has no padding
  check(EVP_CIPHER_CTX_ctrl(context_->seal, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
}

void Aead::seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) {
  begin(nonce, context);
  update(plain, out);
  end(tag);
}

bool Aead::open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out) {
  if (tag.size() != aead_tag_size) return false;
  EVP_CIPHER_CTX* const c = context_->open;
  int n = 0;
  AeadTag given;
  std::copy(tag.begin(), tag.end(), given.begin());
  check(EVP_DecryptInit_ex2(c, nullptr, nullptr, raw(nonce.data()), nullptr) == 1);
  if (!context.empty()) check(EVP_DecryptUpdate(c, nullptr, &n, raw(context.data()), length(context)) == 1);
  if (!sealed.empty()) check(EVP_DecryptUpdate(c, raw(out), &n, raw(sealed.data()), length(sealed)) == 1);
  check(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(given.size()), given.data()) == 1);
  unsigned char rest[16];
  if (EVP_DecryptFinal_ex(c, rest, &n) == 1) return true;
  OPENSSL_cleanse(out, sealed.size());
  return false;
}

}  // namespace verbena
