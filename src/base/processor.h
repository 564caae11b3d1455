// What this processor can do beyond what the program is built for.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

// 512-bit vectors of integers, with rotations of their 64-bit elements.
inline bool has_avx512() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
#else
  return false;
#endif
}

// Whether QEMU emulates the processor (its TCG). There an instruction for CRCs, or for carry-less products, is a loop
// over its bits, slower than tables.
inline bool is_emulated() {
#if defined(__x86_64__)
  static const bool is = [] {
    constexpr unsigned hypervisor = 1u << 31, signature = 0x4000'0000, tcg[] = {0x54474354, 0x43544743, 0x47435447};
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & hypervisor) == 0) return false;
    __cpuid(signature, a, b, c, d);
    return b == tcg[0] && c == tcg[1] && d == tcg[2];  // "TCGTCGTCGTCG"
  }();
  return is;
#else
  return false;
#endif
}

}  // namespace verbena
