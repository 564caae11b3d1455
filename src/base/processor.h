// What this processor can do beyond what the program is built for.
#pragma once

namespace verbena {

// 256-bit vectors of integers.
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
#else
  return false;
#endif
}

}  // namespace verbena
