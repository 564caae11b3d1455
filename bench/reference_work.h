// A fixed piece of work of the kind that serving a request is, and none of Verbena's own code. Counted in the same run,
// it says what a compiler, a C library and a machine make of such code, so that counts of different toolchains compare.
#pragma once

#include <cstdint>

namespace verbena::bench {

// Once. The result depends on all of it.
uint64_t reference_work();

}  // namespace verbena::bench
