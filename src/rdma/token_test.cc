#include "rdma/token.h"

#include <gtest/gtest.h>

#include "rdma/sealing.h"

namespace verbena::rdma {
namespace {

constexpr char good[] = "7f0000001000:100000:ofi1:tcp:0200232801020304:1122334455667788";

TEST(Token, OfOfi1IsRead) {
  const auto token = parse_token(good);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->form, TokenForm::ofi1);
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
  EXPECT_EQ(cuobject->form, TokenForm::cuobject);
  const auto dialect = [](const std::string& text) {
    const auto token = parse_token(text);
    EXPECT_TRUE(token) << text;
    return token ? token->form : TokenForm::ofi1;
  };
  const std::string gid = "fe80000000000000000000000000000f";
  for (const std::string& text : {
           "00007f0000001000:00100000:00001234:0001:00002a:1:" + gid + ";",
           "00007f0000001000:00100000:00001234:0001:00002a:1:" + gid + ":00007f0000001000:0000000000100000",
           "7f0000001000:100000:1234:1:2a:1:" + gid,
           std::string("7F0000001000:100000:1234:1:2A:0:0;"),
       }) {
    EXPECT_EQ(dialect(text), TokenForm::cuobject) << text;
    EXPECT_EQ(parse_token(text)->size, 0x100000u);
    EXPECT_EQ(parse_token(text)->flaw, nullptr);
  }
  EXPECT_EQ(dialect("hipobj-rc-v2:1234"), TokenForm::unknown);
  EXPECT_EQ(dialect(std::string(128, 'a')), TokenForm::unknown);
  for (const char* family : {"ofi2", "ofi10", "uet1"}) {
    EXPECT_EQ(dialect(std::string("0:0:") + family + ":tcp:00:0"), TokenForm::unknown) << family;
  }
  for (const std::string& text : {std::string(), std::string("x"), std::string(":::::"), std::string("nonsense"),
                                  std::string(token_size_max + 1, '0'), std::string("0:0:ofi:tcp:00:0"), "a:" + gid,
                                  std::string("00007f0000001000:00100000:00001234:0001:00002a:1:") + gid + "00"}) {
    EXPECT_EQ(dialect(text), TokenForm::unknown) << text;
  }
}

// Its name is its own, so that a server which cannot seal knows no such dialect and declines it.
TEST(Token, OfSealedBytesHasTheFieldsOfOfi1) {
  const std::string text = "7f0000001000:100000:ofi1s:tcp:0200232801020304:1122334455667788";
  const auto token = parse_token(text);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->form, TokenForm::ofi1_sealed);
  EXPECT_EQ(token->size, 0x100000u);
  EXPECT_EQ(token->key, 0x1122334455667788u);
  EXPECT_FALSE(token->seal) << "the key is not in the token";
  EXPECT_EQ(format_token(*token), text);
  EXPECT_EQ(redacted(*token), "ofi1s provider=tcp size=1048576");
  for (const char* const bad : {"0:4:ofi1s:tcp", "0:4:ofi1s:tcp:00:00112233445566778899", "0:4:ofi1s:t cp:00:1",
                                "ffffffffffffffff:10:ofi1s:tcp:00:1", "0:4:ofi1s:tcp:00:1:0:0000000000000004"}) {
    EXPECT_EQ(parse_token(bad).error(), Errc::invalid_rdma_token) << bad;
  }
}

TEST(Token, TheKeyBesideASealedOneIsRead) {
  const std::string digits(64, 'a');
  const auto key = parse_sealing("aes-256-gcm:" + digits);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->sealing, fabric::Sealing::aes_256_gcm);
  EXPECT_EQ(key->bytes[31], std::byte{0xaa});
  EXPECT_EQ(format_sealing(*key), "aes-256-gcm:" + digits);
  EXPECT_EQ(parse_sealing("chacha20-poly1305:" + digits)->sealing, fabric::Sealing::chacha20_poly1305);
  for (const std::string& bad :
       {std::string(), digits, std::string("aes-256-gcm:"), "aes-256-gcm:" + digits + "a", "none:" + digits,
        ":" + digits, "aes-256-gcm:" + std::string(64, 'G'), "aes-256-gcm " + digits}) {
    EXPECT_FALSE(parse_sealing(bad)) << bad;
  }
  EXPECT_TRUE(parse_sealed(std::string(32, '0')));
  EXPECT_FALSE(parse_sealed(std::string(31, '0')));
  EXPECT_FALSE(parse_sealed(""));
}

TEST(Token, OfReliableConnectionsNamesItsConnection) {
  const std::string id = "00112233445566778899aabbccddeeff";
  const auto token = parse_token("rc:" + id + ":7f0000001000:100000:1a2b");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->form, TokenForm::cuobject_rc);
  EXPECT_EQ(token->endpoint_name, id);
  EXPECT_EQ(token->base, 0x7f0000001000u);
  EXPECT_EQ(token->size, 0x100000u);
  EXPECT_EQ(token->key, 0x1a2bu);
  EXPECT_EQ(redacted(*token), "cuobject_rc");
  for (const std::string& text : {"rc:" + id, "rc:" + id + ":1:1", "rc:" + id + ":1:1:123456789", "rc:" + id + ":::",
                                  "rc:" + id.substr(1) + ":1:1:1", "rc:" + id + ":ffffffffffffffff:2:1",
                                  "rc:" + id + ":1:1:1:1", std::string("rc::1:1:1")}) {
    const auto other = parse_token(text);
    ASSERT_TRUE(other) << text;
    EXPECT_EQ(other->form, TokenForm::unknown) << text;
  }
}

TEST(Token, OfCuObjectNamesMemoryBehindADcTarget) {
  const auto token = parse_token("00007f1200001000:0000000a:00181c00:0005:000c1d:1:00000000000000000000ffff0a4d0002");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->base, 0x7f1200001000u);
  EXPECT_EQ(token->size, 10u);
  EXPECT_EQ(token->key, 0x181c00u);
  EXPECT_EQ(token->target.lid, 5);
  EXPECT_EQ(token->target.number, 0xc1du);
  ASSERT_TRUE(token->target.gid);
  EXPECT_EQ(to_hex(*token->target.gid), "00000000000000000000ffff0a4d0002");
  EXPECT_EQ(redacted(*token), "cuobject");
  EXPECT_FALSE(parse_token("1:a:2:5:c1d:0:0")->target.gid) << "by its LID";
}

TEST(Token, OfHipObjectHas88Digits) {
  const std::string digits(88, 'a');
  for (const std::string& text : {digits, digits + ":7f00:100"}) EXPECT_EQ(parse_token(text)->form, TokenForm::hipobj);
  for (const std::string& text : {digits + "a", digits.substr(1), digits + ":1"}) {
    EXPECT_EQ(parse_token(text)->form, TokenForm::unknown) << text;
  }
}

TEST(Token, MayNameAnyProviderThatLibfabricCouldHave) {
  for (const char* provider : {"tcp", "verbs;ofi_rxm", "TCP", "sockets", "psm3.1", "ofi_hook+x"}) {
    const auto token = parse_token(std::string("0:0:ofi1:") + provider + ":00:0");
    ASSERT_TRUE(token) << provider;
    EXPECT_EQ(token->provider, provider);
  }
}

TEST(Token, OfOfi1MayHaveItsWindowAgainAsProgramsForCuObjectAppendIt) {
  const auto plain = parse_token("0:10:ofi1:tcp:00:f");
  ASSERT_TRUE(plain);
  for (const char* end : {"", ";"}) {
    const auto token = parse_token(std::string("0:10:ofi1:tcp:00:f:00007f0000001000:0000000000000010") + end);
    ASSERT_TRUE(token) << end;
    EXPECT_EQ(format_token(*token), format_token(*plain));
  }
}

TEST(Token, ThatIsNoTokenIsInvalid) {
  const std::string long_name(2 * endpoint_name_size_max + 2, 'a');
  const std::string bad[] = {
      "0:0:ofi1:" + std::string(token_size_max, '0'),
      "0:0:ofi1",
      "0:0:ofi1:tcp:00",
      "0:0:ofi1:tcp:00:0:0",
      "0:10:ofi1:tcp:00:0:0000000000001000:0000000000000011",
      "0:10:ofi1:tcp:00:0:0000000000001000:0000000000000010;;",
      "0:10:ofi1:tcp:00:0:address:0000000000000010",
      "0:10:ofi1:tcp:00:0:0000000000001000:0000000000000010:0",
      "0:10:ofi1:tcp:00:0;",
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
  EXPECT_EQ(token->form, TokenForm::ofi1_raw);
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
