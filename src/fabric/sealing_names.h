// The names of ciphers in a session's request and answer, and beside a token.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/aead_available.h"
#include "fabric/fabric.h"

namespace verbena::fabric {

constexpr std::string_view name_of(Sealing sealing) {
  switch (sealing) {
    case Sealing::aes_256_gcm:
      return "aes-256-gcm";
    case Sealing::chacha20_poly1305:
      return "chacha20-poly1305";
    case Sealing::none:
      break;
  }
  return "";
}

constexpr AeadKind aead_of(Sealing sealing) {
  return sealing == Sealing::chacha20_poly1305 ? AeadKind::chacha20_poly1305 : AeadKind::aes_256_gcm;
}

// none: an unknown name.
constexpr Sealing sealing_of(std::string_view name) {
  for (const auto sealing : {Sealing::aes_256_gcm, Sealing::chacha20_poly1305}) {
    if (name == name_of(sealing)) return sealing;
  }
  return Sealing::none;
}

// none: an unknown name, or a cipher that this machine does not have.
inline Sealing usable_sealing_of(std::string_view name, bool (*available)(AeadKind) = aead_available) {
  const Sealing sealing = sealing_of(name);
  return sealing != Sealing::none && available(aead_of(sealing)) ? sealing : Sealing::none;
}

// The ciphers that this machine has, the fastest here first.
inline std::vector<Sealing> usable_sealings(bool (*available)(AeadKind) = aead_available,
                                            AeadKind fastest = fastest_aead()) {
  std::pair order(Sealing::aes_256_gcm, Sealing::chacha20_poly1305);
  if (fastest == AeadKind::chacha20_poly1305) std::swap(order.first, order.second);
  std::vector<Sealing> usable;
  for (const Sealing one : {order.first, order.second}) {
    if (available(aead_of(one))) usable.push_back(one);
  }
  return usable;
}

}  // namespace verbena::fabric
