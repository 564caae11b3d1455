#include "base/aead.h"

#include <openssl/crypto.h>

#include <utility>

#include "base/aead_available.h"
#include "base/aead_cipher.h"
#include "base/aead_library.h"
#include "base/aes_instructions.h"

namespace verbena {

bool aead_available(AeadKind kind) { return openssl_cipher(kind) != nullptr; }

AeadKind fastest_aead() {
  static const bool aes = aes_instructions().gcm() || !aead_available(AeadKind::chacha20_poly1305);
  return aes ? AeadKind::aes_256_gcm : AeadKind::chacha20_poly1305;
}

AesGcmLibrary aes_gcm_library() {
  if (has_vaes_gcm()) return {vaes_gcm_library(), true};
  return {std::string("OpenSSL ") + OpenSSL_version(OPENSSL_VERSION_STRING),
          aes_instructions().vector_aes && takes_vector_aes(OpenSSL_version_num())};
}

struct Aead::Context {
  const std::unique_ptr<AeadCipher> cipher;
};

Aead::Aead(Bytes key, AeadKind kind) {
  check_aead(key.size() == aead_key_size);
  const bool vaes = kind == AeadKind::aes_256_gcm && has_vaes_gcm();
  context_ = new Context{vaes ? make_vaes_gcm(key) : make_openssl_aead(key, kind)};
}

Aead::Aead(Aead&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
Aead& Aead::operator=(Aead&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}
Aead::~Aead() { delete context_; }

void Aead::begin(const AeadNonce& nonce, Bytes context) { context_->cipher->begin(nonce, context); }

void Aead::update(Bytes plain, std::byte* out) { context_->cipher->update(plain, out); }

void Aead::end(AeadTag& tag) { context_->cipher->end(tag); }

void Aead::seal(const AeadNonce& nonce, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) {
  context_->cipher->seal(nonce, context, plain, out, tag);
}

bool Aead::open(const AeadNonce& nonce, Bytes context, Bytes sealed, Bytes tag, std::byte* out) {
  return tag.size() == aead_tag_size && context_->cipher->open(nonce, context, sealed, tag, out);
}

}  // namespace verbena
