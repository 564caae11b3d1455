// The names of ciphers in a session's request and answer.
#pragma once

#include <string_view>

#include "fabric/fabric.h"

namespace verbena::native::wire {

constexpr std::string_view name_of(fabric::Sealing sealing) {
  switch (sealing) {
    case fabric::Sealing::aes_256_gcm:
      return "aes-256-gcm";
    case fabric::Sealing::chacha20_poly1305:
      return "chacha20-poly1305";
    case fabric::Sealing::none:
      break;
  }
  return "";
}

// none: an unknown name.
constexpr fabric::Sealing sealing_of(std::string_view name) {
  for (const auto sealing : {fabric::Sealing::aes_256_gcm, fabric::Sealing::chacha20_poly1305}) {
    if (name == name_of(sealing)) return sealing;
  }
  return fabric::Sealing::none;
}

}  // namespace verbena::native::wire
