// What libfabric is told by environment variables, which it reads once in a process: in its first fi_getinfo.
#pragma once

#include <rdma/fabric.h>

namespace verbena::compat {

// fi_getinfo. The first call of the process has our settings in its environment, which is the program's own again when
// it returns. What the program or its user has set stays as it is.
int get_info(const char* node, uint64_t flags, const fi_info* hints, fi_info** found);

}  // namespace verbena::compat
