// What a fork leaves of the client library. The child has copies of sockets, rings and locks that are the parent's, and
// none of the threads: it must not use them, nor end them as the parent would.
#pragma once

#include <cstdint>

namespace verbena::client {

// How many forks lie between the process that asked first and this one. What was made under another number is the
// parent's.
uint64_t forks();

}  // namespace verbena::client
