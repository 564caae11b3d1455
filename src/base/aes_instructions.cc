#include "base/aes_instructions.h"

#include <openssl/crypto.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <charconv>
#include <cstdint>

namespace verbena {
namespace {

// "NAME=0x1f:0x2": its numbers' words, from the first one on. False: no such text.
bool take_word(std::string_view& text, std::string_view before, uint64_t& word) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + before.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool has_bit(uint64_t word, unsigned bit) { return (word >> bit & 1) != 0; }

}  // namespace

#if defined(__x86_64__)

// Of CPUID's leaf 7: EBX has AVX-512 F, DQ, BW and VL, ECX VAES and VPCLMULQDQ. The same that OpenSSL asks before its
// loop (ossl_vaes_vpclmulqdq_capable).
constexpr uint64_t vector_bits = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31 | uint64_t{1} << 41 | uint64_t{1} << 42;

AesInstructions aes_instructions(std::string_view settings) {
  AesInstructions out{.aes = __builtin_cpu_supports("aes") != 0,
                      .multiplication = __builtin_cpu_supports("pclmul") != 0,
                      .vector_aes = __builtin_cpu_supports("vaes") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 &&
                                    __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                                    __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0};
  // OPENSSL_ia32cap(3): bits of CPUID's leaf 1 (EDX, ECX), and of leaf 7 (EBX, ECX).
  uint64_t leaf1 = 0, leaf7 = 0;
  if (!take_word(settings, "OPENSSL_ia32cap=0x", leaf1)) return out;
  out.aes = out.aes && has_bit(leaf1, 32 + 25);
  out.multiplication = out.multiplication && has_bit(leaf1, 32 + 1);
  if (take_word(settings, ":0x", leaf7))
    out.vector_aes = out.vector_aes && out.gcm() && (leaf7 & vector_bits) == vector_bits;
  return out;
}

#elif defined(__aarch64__)

AesInstructions aes_instructions(std::string_view settings) {
  const unsigned long has = ::getauxval(AT_HWCAP);
  AesInstructions out{.aes = (has & HWCAP_AES) != 0, .multiplication = (has & HWCAP_PMULL) != 0};
  uint64_t told = 0;  // ARMV8_AES and ARMV8_PMULL of OpenSSL's arm_arch.h
  if (!take_word(settings, "OPENSSL_armcap=0x", told)) return out;
  out.aes = out.aes && has_bit(told, 2);
  out.multiplication = out.multiplication && has_bit(told, 5);
  return out;
}

#else

AesInstructions aes_instructions(std::string_view) { return {}; }

#endif

const AesInstructions& aes_instructions() {
  static const AesInstructions has = [] {
    const char* const settings = OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS);
    return aes_instructions(settings == nullptr ? std::string_view() : std::string_view(settings));
  }();
  return has;
}

}  // namespace verbena
