#include "auth/master_key.h"

#include <algorithm>
#include <cstring>

#include "auth/keyring.h"
#include "base/checksum.h"

namespace verbena::auth {
namespace {

constexpr std::byte sealed_format{1};
constexpr size_t half_nonce = aead_nonce_size;

}  // namespace

MasterKey::MasterKey(uint32_t v, Secret k) : version(v), key(std::move(k)) {
  const std::string digest = hmac_sha256(key.bytes(), as_bytes("verbena master key id"));
  std::memcpy(id.data(), digest.data(), id.size());
}

// The cipher for all nonces with this first half: its key is derived from the master key and the half.
Aead MasterKey::aead(Bytes first_half) const {
  std::string purpose("verbena seal ");
  purpose += as_text(first_half);
  std::string derived = hmac_sha256(key.bytes(), as_bytes(purpose));
  Aead made(as_bytes(derived));
  wipe(derived);
  return made;
}

Secret MasterKey::derived(std::string_view purpose) const {
  std::string text = hmac_sha256(key.bytes(), as_bytes("verbena derive " + std::string(purpose)));
  Secret made(as_bytes(text));
  wipe(text);
  return made;
}

std::string MasterKey::seal(Bytes plain, std::string_view context) const {
  std::string out(sealed_overhead + plain.size(), '\0');
  auto* at = reinterpret_cast<std::byte*>(out.data());
  *at++ = sealed_format;
  at = std::ranges::copy(id, at).out;
  fill_random({at, 2 * half_nonce});
  const Bytes first_half(at, half_nonce);
  AeadNonce nonce;
  std::memcpy(nonce.data(), at + half_nonce, nonce.size());
  at += 2 * half_nonce;
  AeadTag tag;
  aead(first_half).seal(nonce, as_bytes(context), plain, at, tag);
  std::ranges::copy(tag, at + plain.size());
  return out;
}

Result<Secret> MasterKey::unseal(Bytes sealed, std::string_view context) const {
  if (sealing_id(sealed) != id) return fail(Errc::corrupt_object, "sealed: shape");
  const Bytes first_half = sealed.subspan(1 + id_size, half_nonce);
  AeadNonce nonce;
  std::ranges::copy(sealed.subspan(1 + id_size + half_nonce, nonce.size()), nonce.begin());
  const size_t size = sealed.size() - sealed_overhead;
  Secret plain(size);
  if (!aead(first_half)
           .open(nonce, as_bytes(context), sealed.subspan(1 + id_size + 2 * half_nonce, size),
                 sealed.last(aead_tag_size), plain.writable().data())) {
    return fail(Errc::corrupt_object, "sealed: changed, or of another context");
  }
  return plain;
}

std::optional<MasterKey::Id> sealing_id(Bytes sealed) {
  if (sealed.size() < sealed_overhead || sealed[0] != sealed_format) return std::nullopt;
  MasterKey::Id id;
  std::ranges::copy(sealed.subspan(1, id.size()), id.begin());
  return id;
}

}  // namespace verbena::auth
