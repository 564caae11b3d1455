// The limit for every reader of a query: of its signature, and of what it asks for.
#pragma once

#include <cstddef>

namespace verbena::auth {

inline constexpr size_t query_arguments_max = 256;

}  // namespace verbena::auth
