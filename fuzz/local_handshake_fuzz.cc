// The bytes of a packet on the same-host socket, from an untrusted client.
#include <cstdint>

#include "fabric/local/control.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = verbena::fabric::local::parse_control(bytes.subspan(1), data[0]);
  if (message && size != sizeof *message + 1) __builtin_trap();
  return 0;
}
