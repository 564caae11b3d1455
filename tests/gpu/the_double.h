// The double of a driver that this program is linked with.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "double.h"
#include "memory/cuda.h"

namespace verbena::matrix {

// Whose driver this program's double is: most programs are built once with each.
inline memory::cuda::Platform platform() { return static_cast<memory::cuda::Platform>(double_platform()); }
inline bool is_hip() { return platform() == memory::cuda::Platform::rocm; }
// What that driver calls it.
inline const char* own(const char* cuda, const char* hip) { return is_hip() ? hip : cuda; }

// The driver of this process, and of those that it starts.
inline void use_the_double() {
  Dl_info info{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&double_allocate), &info), 0);
  ::setenv(own("TEST_VERBENA_CUDA_DRIVER", "TEST_VERBENA_HIP_DRIVER"), info.dli_fname, 1);
}

}  // namespace verbena::matrix
