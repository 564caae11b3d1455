#include "base/aes_instructions.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace verbena {
namespace {

#if defined(__x86_64__)

AesInstructions told(uint64_t leaf1, uint64_t leaf7) {
  return aes_instructions(fmt::format("CPUINFO: OPENSSL_ia32cap=0x{:x}:0x{:x} env:~0x0", leaf1, leaf7));
}

TEST(AesInstructions, AreThoseThatOpensslUses) {
  const AesInstructions processors = aes_instructions(std::string_view());
  const AesInstructions all = told(UINT64_MAX, UINT64_MAX);
  EXPECT_EQ(all.gcm(), processors.gcm());
  EXPECT_EQ(all.vector_aes, processors.vector_aes);
  EXPECT_FALSE(told(~(uint64_t{1} << 57), UINT64_MAX).aes);
  EXPECT_FALSE(told(~(uint64_t{1} << 57), UINT64_MAX).vector_aes);
  EXPECT_FALSE(told(~(uint64_t{1} << 33), UINT64_MAX).gcm());
  EXPECT_EQ(told(~(uint64_t{1} << 33), UINT64_MAX).aes, processors.aes);
  EXPECT_FALSE(told(~(uint64_t{1} << 33), UINT64_MAX).vector_aes);
  // AVX-512 F, DQ, BW and VL, VAES, VPCLMULQDQ.
  for (const unsigned bit : {16, 17, 30, 31, 41, 42}) {
    EXPECT_FALSE(told(UINT64_MAX, ~(uint64_t{1} << bit)).vector_aes) << bit;
    EXPECT_EQ(told(UINT64_MAX, ~(uint64_t{1} << bit)).gcm(), processors.gcm()) << bit;
  }
}

TEST(AesInstructions, TextThatIsNotUnderstoodTakesNothingAway) {
  const AesInstructions processors = aes_instructions(std::string_view());
  for (const char* text : {"N/A", "OPENSSL_ia32cap=", "OPENSSL_ia32cap=0xzz", "OPENSSL_ia32cap=0x"}) {
    EXPECT_EQ(aes_instructions(std::string_view(text)).gcm(), processors.gcm()) << text;
  }
}

#endif

}  // namespace
}  // namespace verbena
