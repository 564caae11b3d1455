// The names of ciphers in a session's request and answer, and beside a token.
#pragma once

#include <string_view>

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

// none: an unknown name.
constexpr Sealing sealing_of(std::string_view name) {
  for (const auto sealing : {Sealing::aes_256_gcm, Sealing::chacha20_poly1305}) {
    if (name == name_of(sealing)) return sealing;
  }
  return Sealing::none;
}

}  // namespace verbena::fabric
