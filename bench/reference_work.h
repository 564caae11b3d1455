// A fixed workload similar to serving a request, without Verbena's code. Its count in the same run characterizes
// compiler, C library and machine, so that counts of different toolchains can be compared.
#pragma once

#include <cstdint>

namespace verbena::bench {

// Runs it once. The result depends on all of the work.
uint64_t reference_work();

}  // namespace verbena::bench
