#include "base/ephemeral_key.h"

#include <gtest/gtest.h>
#include <openssl/err.h>

#include "base/wiped.h"

namespace verbena {
namespace {

EphemeralKey::Public public_of(std::string_view hex) {
  EphemeralKey::Public key;
  std::ranges::copy(*from_hex(hex), key.begin());
  return key;
}

// RFC 7748, section 6.1: Bob's side.
TEST(EphemeralKeyTest, MatchesThePublishedVector) {
  const Secret bob(*from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
  auto key = EphemeralKey::from(bob);
  ASSERT_TRUE(key);
  EXPECT_EQ(to_hex(key->public_key()), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const auto shared = key->agree(public_of("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  ASSERT_TRUE(shared);
  EXPECT_EQ(to_hex(shared->bytes()), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
}

TEST(EphemeralKeyTest, BothSidesComeToOneSecretAndOthersToAnother) {
  auto a = EphemeralKey::make(), b = EphemeralKey::make(), c = EphemeralKey::make();
  ASSERT_TRUE(a && b && c);
  const auto of_a = a->agree(b->public_key()), of_b = b->agree(a->public_key()), of_c = c->agree(a->public_key());
  ASSERT_TRUE(of_a && of_b && of_c);
  EXPECT_EQ(to_hex(of_a->bytes()), to_hex(of_b->bytes()));
  EXPECT_NE(to_hex(of_a->bytes()), to_hex(of_c->bytes()));
}

TEST(EphemeralKeyTest, IsGoneOnceItWasUsed) {
  auto a = EphemeralKey::make(), b = EphemeralKey::make();
  ASSERT_TRUE(a->agree(b->public_key()));
  EXPECT_FALSE(a->agree(b->public_key()));
}

TEST(EphemeralKeyTest, APointOfLowOrderGivesNoSecretAndLeavesNoErrorBehind) {
  ERR_clear_error();
  for (const char* const low : {"0000000000000000000000000000000000000000000000000000000000000000",
                                "0100000000000000000000000000000000000000000000000000000000000000",
                                "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                                "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    auto key = EphemeralKey::make();
    const auto shared = key->agree(public_of(low));
    ASSERT_FALSE(shared) << low;
    EXPECT_EQ(shared.error(), Errc::invalid_argument);
    EXPECT_FALSE(key->agree(EphemeralKey::make()->public_key())) << "the private key is gone all the same";
  }
  EXPECT_EQ(ERR_peek_error(), 0u) << "TLS connections of this thread would take it for theirs";
}

TEST(EphemeralKeyTest, IsMadeOf32Bytes) {
  for (const size_t size : {0, 31, 33}) EXPECT_FALSE(EphemeralKey::from(Secret(size)));
}

TEST(WipedTest, LeavesNothing) {
  alignas(Wiped<uint64_t>) std::byte place[sizeof(Wiped<uint64_t>)];
  auto* const value = new (place) Wiped<uint64_t>(uint64_t{0x1122334455667788});
  EXPECT_EQ(**value, 0x1122334455667788u);
  value->~Wiped();
  const volatile std::byte* left = place;
  for (size_t i = 0; i < sizeof place; ++i) EXPECT_EQ(static_cast<int>(left[i]), 0);
}

}  // namespace
}  // namespace verbena
