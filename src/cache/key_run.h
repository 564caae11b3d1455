// Names of one length in one bucket, one after the other in memory.
#pragma once

#include <cstddef>
#include <string_view>

namespace verbena::cache {

struct KeyRun {
  static constexpr size_t count_max = 128;

  std::string_view bucket;
  const char* names = nullptr;
  size_t size = 0;    // of each name
  size_t count = 0;   // at most count_max
  size_t shared = 0;  // leading bytes that all of them share; a hash is continued from there

  std::string_view at(size_t index) const { return {names + index * size, size}; }
};

}  // namespace verbena::cache
