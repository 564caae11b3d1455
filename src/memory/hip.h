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
// - An event releases to the system what its stream has written. One that does not leaves it in the device's caches,
//   where neither another process's copies nor an RDMA device find it.
// - Memory by descriptors (hipMemMap and others) from ROCm 7.14 on. Before, hipMemRetainAllocationHandle takes no
//   reference (until 7.12) and does not survive memory of another kind, hipMemMap hides its failures, and
//   hipMemImportFromShareableHandle reads its descriptor elsewhere (6.2).
// - A dma-buf is that of the runtime below HIP (HSA), and always holds a whole buffer, which begins before a small
//   allocation: hipMemGetHandleForAddressRange does not tell where in it the range is. The caller closes it.
// - The attributes of how a device orders other devices' writes have no equivalent in most versions, and numbers of
//   their own in the others: that hipDeviceFlushGPUDirectRDMAWrites succeeds is what says that the host can flush them.
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
// Adds what a driver of this version, which has started, can be trusted with.
void add_of_version(Calls& calls, int version);

}  // namespace verbena::memory::cuda
