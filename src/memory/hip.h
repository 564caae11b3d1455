// AMD's driver (HIP, ROCm 5.0 and later) in the table of calls that CUDA's fills. Private to this room.
//
// What differs, and how the table has it:
// - Contexts: HIP's current device of a thread (hipSetDevice). A context is the number of a device, and popping it
// makes
//   the device current again that was. HIP's own hipCtxPopCurrent does not.
// - Statuses are HIP's, of which those that this project tells apart have CUDA's numbers. A failure does not stay
// behind
//   for the program's hipGetLastError().
// - A range is that of hipMemGetAddressRange: the attribute for its size has 32 bits. The kind of memory has other
//   numbers before ROCm 6.
// - Stream 1, CUDA's default stream, is HIP's null stream.
// - A device's name is its UUID, unless the UUID is empty or two devices have the same.
//
// What is absent: memory by descriptors (hipMemMap and others). hipMemRetainAllocationHandle takes no reference and
// does not check its argument, and hipMemMap does not compare the sizes (ROCm 6.2).
#pragma once

#include <dlfcn.h>

#include "memory/cuda_calls.h"

namespace verbena::memory::cuda {

// False, and null: the library has no such function.
template <class Fn>
bool find_function(void* library, const char* name, Fn*& into) {
  into = reinterpret_cast<Fn*>(::dlsym(library, name));
  return into != nullptr;
}

// Fills the table. The name of the first function that the library lacks; nullptr: none. Once in a process.
const char* find_hip(void* library, Calls& calls);

}  // namespace verbena::memory::cuda
