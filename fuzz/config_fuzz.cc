// The configuration parser on arbitrary text: never crashes, and an accepted text passes through check() too.
#include <cstddef>
#include <cstdint>

#include "base/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::Config config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (verbena::apply_yaml(config, text, "fuzz.yaml")) (void)verbena::check(config);
  return 0;
}
