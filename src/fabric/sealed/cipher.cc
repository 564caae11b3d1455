#include "fabric/sealed/cipher.h"

#include <openssl/crypto.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/cursor.h"
#include "fabric/sealing_names.h"

namespace verbena::fabric::sealed {
namespace {

AeadNonce nonce_of(uint64_t number) {
  AeadNonce nonce{};
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<std::byte>(number >> (8 * i));
  return nonce;
}

Wiped<Sha256> root_of(const ConnectionKey& key, const Salt& salt, std::string_view label, Bytes more = {}) {
  std::string text = "verbena-sealed-1 " + std::string(label);
  text.push_back('\0');
  text.append(as_text(salt));
  text.append(as_text(more));
  return Wiped<Sha256>(Wiped<HmacSha256>(Bytes(key.bytes))->sign(as_bytes(text)));
}

}  // namespace

Cipher::Cipher(const Sha256& root, AeadKind kind, unsigned epoch_bits)
    : root_(Bytes(root)), kind_(kind), epoch_bits_(epoch_bits) {}

Cipher::Epoch Cipher::make(uint64_t epoch) const {
  std::string text("verbena-sealed-1 epoch", 23);  // with its final zero
  for (size_t i = 0; i < 8; ++i) text.push_back(static_cast<char>(epoch >> (8 * i)));
  Sha256 key = root_->sign(as_bytes(text));
  Epoch made{epoch, Aead(key, kind_)};
  OPENSSL_cleanse(key.data(), key.size());
  return made;
}

Aead& Cipher::of(uint64_t number) {
  const uint64_t epoch = number >> epoch_bits_;
  if (!now_ || now_->number != epoch) now_ = make(epoch);
  return now_->aead;
}

void Cipher::seal(uint64_t number, Bytes context, Bytes plain, std::byte* out, AeadTag& tag) {
  of(number).seal(nonce_of(number), context, plain, out, tag);
}

void Cipher::begin(uint64_t number, Bytes context) { of(number).begin(nonce_of(number), context); }

bool Cipher::open(uint64_t number, Bytes context, Bytes sealed, Bytes tag, std::byte* out) {
  const uint64_t epoch = number >> epoch_bits_;
  if (!now_) now_ = make(epoch);
  if (epoch == now_->number) return now_->aead.open(nonce_of(number), context, sealed, tag, out);
  if (before_ && epoch == before_->number) return before_->aead.open(nonce_of(number), context, sealed, tag, out);
  if (epoch < now_->number) {
    OPENSSL_cleanse(out, sealed.size());
    return false;
  }
  // A renewed key is kept only if something was sealed with it.
  Epoch next = make(epoch);
  if (!next.aead.open(nonce_of(number), context, sealed, tag, out)) return false;
  before_ = std::exchange(now_, std::move(next));
  return true;
}

Ciphers derive(const ConnectionKey& key, const Salt& salt, Side side, unsigned epoch_bits) {
  const AeadKind kind = aead_of(key.sealing);
  const auto cipher = [&](std::string_view label) { return Cipher(*root_of(key, salt, label), kind, epoch_bits); };
  Cipher to_server = cipher("messages to server"), to_client = cipher("messages to client");
  Cipher up = cipher("records to server"), down = cipher("records to client");
  if (side == Side::server) return {std::move(to_client), std::move(to_server), std::move(down), std::move(up)};
  return {std::move(to_server), std::move(to_client), std::move(up), std::move(down)};
}

Cipher derive_transfer(const ConnectionKey& key, const Salt& salt, Direction direction, uint64_t length) {
  const std::string_view label = direction == Direction::to_server ? "transfer to server" : "transfer to client";
  const uint64_t told = cursor::little_endian(length);
  return Cipher(*root_of(key, salt, label, std::as_bytes(std::span(&told, 1))), aead_of(key.sealing));
}

}  // namespace verbena::fabric::sealed
