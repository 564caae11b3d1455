// This processor's instructions for AES-GCM that OpenSSL may use: what its variables of the environment
// (OPENSSL_ia32cap, OPENSSL_armcap) take away from it is not there, for other libraries either.
#pragma once

#include <string_view>

namespace verbena {

struct AesInstructions {
  bool aes = false;
  bool multiplication = false;  // without carry, for GCM's tag
  bool vector_aes = false;      // VAES and VPCLMULQDQ with AVX-512: several blocks at once
  bool gcm() const { return aes && multiplication; }
};

// The processor's, of those that OpenSSL told in `settings` (OPENSSL_INFO_CPU_SETTINGS). Text that is not understood
// takes nothing away.
AesInstructions aes_instructions(std::string_view settings);
// Whether AES-GCM of that OpenSSL (OpenSSL_version_num()) takes VAES where it is there: from 3.1 on (its CHANGES).
constexpr bool takes_vector_aes(unsigned long version) { return version >= 0x30100000UL; }
// With this process's OpenSSL. Read once.
const AesInstructions& aes_instructions();

}  // namespace verbena
