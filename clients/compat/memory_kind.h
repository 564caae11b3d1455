// Whether memory is a GPU's, as NVIDIA's driver knows, if it is there.
#pragma once

namespace verbena::compat {

// The values that s3rdma.h and cuobjclient.h have in common.
enum class MemoryKind { system = 0, cuda_managed = 1, cuda_device = 2, unknown = 3 };

// Without the driver, and for memory that it does not know: system.
MemoryKind memory_kind(const void* memory);

}  // namespace verbena::compat
