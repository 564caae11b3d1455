// Detection of forks. The child has copies of the parent's sockets, rings and locks, and none of its threads: it must
// not use them, nor close them as the parent would.
#pragma once

#include <cstdint>

namespace verbena::client {

// The number of forks between the first process that called this and the present one. Objects made under another number
// are the parent's.
uint64_t forks();

}  // namespace verbena::client
