#include "rdma/token.h"

#include <gtest/gtest.h>

namespace verbena::rdma {
namespace {

constexpr char good[] = "7f0000001000:100000:ofi1:tcp:0200232801020304:1122334455667788";

TEST(Token, OfOfi1IsRead) {
  const auto token = parse_token(good);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->dialect, Dialect::ofi1);
  EXPECT_EQ(token->base, 0x7f0000001000u);
  EXPECT_EQ(token->size, 0x100000u);
  EXPECT_EQ(token->provider, "tcp");
  EXPECT_EQ(token->endpoint_name, std::string("\x02\x00\x23\x28\x01\x02\x03\x04", 8));
  EXPECT_EQ(token->key, 0x1122334455667788u);
}

TEST(Token, SurvivesARoundTrip) {
  EXPECT_EQ(format_token(*parse_token(good)), good);
  const auto verbs = parse_token("0:0:ofi1:verbs;ofi_rxm:0A0b:F");
  ASSERT_TRUE(verbs);
  EXPECT_EQ(format_token(*verbs), "0:0:ofi1:verbs;ofi_rxm:0a0b:f");
}

TEST(Token, OfOtherDialectsIsRecognised) {
  const auto cuobject =
      parse_token("00007f0000001000:00100000:00001234:0001:00002a:1:fe80000000000000000000000000000f");
  ASSERT_TRUE(cuobject);
  EXPECT_EQ(cuobject->dialect, Dialect::cuobject);
  const auto hipobj = parse_token("hipobj-rc-v2:1234");
  ASSERT_TRUE(hipobj);
  EXPECT_EQ(hipobj->dialect, Dialect::hipobj);
}

TEST(Token, ThatIsNoTokenIsInvalid) {
  const std::string long_name(2 * endpoint_name_size_max + 2, 'a');
  const std::string bad[] = {
      "",
      "x",
      ":::::",
      std::string(token_size_max + 1, '0'),
      "0:0:ofi2:tcp:00:0",
      "0:0:ofi1:tcp:00",
      "0:0:ofi1:tcp:00:0:0",
      "g:0:ofi1:tcp:00:0",
      "0x0:0:ofi1:tcp:00:0",
      "-1:0:ofi1:tcp:00:0",
      ":0:ofi1:tcp:00:0",
      "0::ofi1:tcp:00:0",
      "00000000000000000:0:ofi1:tcp:00:0",
      "0:ffffffffffffffff:ofi1:tcp:00:0",
      "ffffffffffffffff:1:ofi1:tcp:00:0",
      "0:0:ofi1::00:0",
      "0:0:ofi1:t cp:00:0",
      "0:0:ofi1:TCP\n:00:0",
      "0:0:ofi1:" + std::string(65, 'a') + ":00:0",
      "0:0:ofi1:tcp::0",
      "0:0:ofi1:tcp:0:0",
      "0:0:ofi1:tcp:zz:0",
      "0:0:ofi1:tcp:" + long_name + ":0",
      "0:0:ofi1:tcp:00:",
      "0:0:ofi1:tcp:00:key",
      "00007f0000001000:00100000:00001234:0001:00002a:1:fe8000000000000000000000000000",
  };
  for (const auto& text : bad) {
    const auto token = parse_token(text);
    ASSERT_FALSE(token) << text;
    EXPECT_EQ(token.error().code, Errc::invalid_rdma_token) << text;
  }
}

TEST(Token, WithALongKeyIsRecognisedToBeDeclined) {
  const auto token = parse_token("0:0:ofi1:efa:00:00112233445566778899");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->dialect, Dialect::ofi1_raw);
}

TEST(Token, IsLoggedWithoutItsSecrets) {
  const std::string text = redacted(*parse_token(good));
  EXPECT_EQ(text.find("1122334455667788"), std::string::npos);
  EXPECT_EQ(text.find("7f0000001000"), std::string::npos);
  EXPECT_EQ(text.find("02002328"), std::string::npos);
  EXPECT_NE(text.find("tcp"), std::string::npos);
}

}  // namespace
}  // namespace verbena::rdma
