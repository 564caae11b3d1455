// Threads that help a caller with work that it does itself, too.
#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace verbena::client {

// `count` threads that run `work`, or fewer, perhaps none, if the process may have no more: those that there are do it.
// Joined by the destructor.
template <class Work>
std::vector<std::jthread> start_helpers(size_t count, const Work& work) {
  std::vector<std::jthread> helpers;
  helpers.reserve(count);
  try {
    for (size_t i = 0; i < count; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
  }
  return helpers;
}

}  // namespace verbena::client
