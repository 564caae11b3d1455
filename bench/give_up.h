// Ends a measuring program when something cannot be counted.
#pragma once

#include <fmt/core.h>

#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace verbena::bench {

[[noreturn]] inline void give_up(const std::string& why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::_Exit(1);
}

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) give_up(std::string(what) + ": " + describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace verbena::bench
