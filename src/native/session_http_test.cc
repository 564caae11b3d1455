#include "native/test_door.h"

namespace verbena::native {
namespace {

class SessionHttpTest : public DoorTest {
 protected:
  SessionHttpTest() : DoorTest({.sessions_max = 3}) {}
  std::string error_of(const FakeExchange& exchange) {
    for (const auto& [name, value] : exchange.response.headers) {
      if (name == "x-verbena-error") return std::string(value);
    }
    return {};
  }
  static std::string proof_of(const FakeExchange& exchange) {
    for (const auto& [name, value] : exchange.response.headers) {
      if (name == "x-verbena-proof") return std::string(value);
    }
    return {};
  }
  static std::string number(Errc code) { return std::to_string(static_cast<unsigned>(code)); }
  std::unique_ptr<FakeExchange> answer_to_text(const std::string& body) {
    auto exchange = std::make_unique<FakeExchange>("POST", "/-/session", body);
    sign(*exchange, body);
    serve(*exchange);
    return exchange;
  }
  TestHandshake handshake_{wire::protocol_version_max};
  std::string body_ = handshake_.body();
};

TEST_F(SessionHttpTest, ASignedRequestOpensASessionAndTheAnswerProvesTheSecret) {
  FakeExchange exchange("POST", "/-/session", body_);
  sign(exchange, body_);
  serve(exchange);
  ASSERT_EQ(exchange.response.status, 200);
  const auto answer = nlohmann::json::parse(exchange.response.body);
  EXPECT_EQ(answer["credits"], 64);
  ASSERT_EQ(answer["endpoints"].size(), 1u);
  EXPECT_EQ(answer["endpoints"][0]["provider"], "local");
  EXPECT_EQ(answer["endpoints"][0]["address"], to_hex(as_bytes("/nowhere")));
  EXPECT_EQ(exchange.response.body.find("secret"), std::string::npos);
  EXPECT_EQ(proof_of(exchange),
            wire::answer_proof(handshake_.master("secret/root", exchange.response.body), exchange.response.body));
  EXPECT_EQ(door_->sessions(), 1u);
}

TEST_F(SessionHttpTest, AnUnsignedRequestIsDenied) {
  FakeExchange exchange("POST", "/-/session", body_);
  exchange.request_headers = {{"host", "server"}};
  serve(exchange);
  EXPECT_EQ(exchange.response.status, 403);
  EXPECT_EQ(error_of(exchange), number(Errc::access_denied));
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SessionHttpTest, AWrongSecretIsRefused) {
  FakeExchange exchange("POST", "/-/session", body_);
  sign(exchange, body_, "secret/wrong");
  serve(exchange);
  EXPECT_EQ(error_of(exchange), number(Errc::signature_does_not_match));
}

TEST_F(SessionHttpTest, AnUnknownKeyIsRefused) {
  FakeExchange exchange("POST", "/-/session", body_);
  sign(exchange, body_, "secret/root", "AKOTHER");
  serve(exchange);
  EXPECT_EQ(error_of(exchange), number(Errc::invalid_access_key_id));
}

TEST_F(SessionHttpTest, ABodyOtherThanTheSignedOneIsRefused) {
  FakeExchange exchange("POST", "/-/session", TestHandshake().body());
  sign(exchange, body_);
  serve(exchange);
  EXPECT_EQ(error_of(exchange), number(Errc::content_sha256_mismatch));
}

TEST_F(SessionHttpTest, ARecordedRequestOpensNoSecondSession) {
  for (const unsigned expected : {0u, 1u}) {
    FakeExchange exchange("POST", "/-/session", body_);
    sign(exchange, body_);
    serve(exchange);
    EXPECT_EQ(exchange.response.status != 200, expected == 1);
  }
  EXPECT_EQ(door_->sessions(), 1u);
}

TEST_F(SessionHttpTest, SessionsAreBounded) {
  for (int i = 0; i < 3; ++i) open_session();
  const auto exchange = answer_to_text(body_);
  EXPECT_EQ(error_of(*exchange), number(Errc::slow_down));
  EXPECT_EQ(exchange->response.status, 503);
  EXPECT_EQ(door_->sessions(), 3u);
}

TEST_F(SessionHttpTest, MalformedBodiesAreRefused) {
  const std::string nonce(32, '0');
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"version\":1}"),
        std::string("{\"version\":1,\"client_nonce\":\"00\"}"), std::string("{\"version\":1,\"client_nonce\":7}"),
        "{\"version\":2,\"client_nonce\":\"" + nonce + "\"}",
        "{\"version\":1,\"client_nonce\":\"" + nonce + "\",\"providers\":\"local\"}",
        "{\"version\":1,\"client_nonce\":\"" + nonce + "\",\"user_agent\":7}",
        "{\"version\":1,\"client_nonce\":\"" + nonce + "\",\"user_agent\":\"a\\nb\"}",
        "{\"version\":1,\"client_nonce\":\"" + nonce + "\",\"user_agent\":\"" + std::string(257, 'x') + "\"}",
        std::string(17000, ' ')}) {
    EXPECT_GE(answer_to_text(body)->response.status, 400) << body;
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

// u-coordinates for which X25519 gives zero whatever the private key is (RFC 7748, section 6.1; the second half is the
// same points without reduction modulo p).
const char* const low_order_keys[] = {
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
};

TEST_F(SessionHttpTest, AKeyThatGivesNoSecretOpensNoSession) {
  for (const std::string key : low_order_keys) {
    for (const bool high_bit : {false, true}) {  // which X25519 ignores
      std::string given = key;
      if (high_bit) given[62] = "89abcdef"[given[62] - '0'];
      TestHandshake handshake(wire::protocol_version_max);
      handshake.wanted["client_key"] = given;
      const auto exchange = answer_to(handshake);
      EXPECT_EQ(exchange->response.status, 400) << given;
      EXPECT_EQ(error_of(*exchange), number(Errc::invalid_argument)) << given;
    }
  }
  EXPECT_EQ(door_->sessions(), 0u) << "its place is free again";
  for (int i = 0; i < 3; ++i) open_session(1, wire::protocol_version_max);
}

TEST_F(SessionHttpTest, AClientThatKnowsTheExchangeGetsNoSessionWithoutIt) {
  const std::string whole = handshake_.wanted["client_key"];
  for (const nlohmann::json& key :
       {nlohmann::json(), nlohmann::json(7), nlohmann::json(""), nlohmann::json(whole.substr(2)),
        nlohmann::json(whole + "00"), nlohmann::json("x" + whole.substr(1))}) {
    TestHandshake handshake(wire::protocol_version_max);
    handshake.wanted["client_key"] = key;
    if (key.is_null()) handshake.wanted.erase("client_key");
    EXPECT_EQ(answer_to(handshake)->response.status, 400) << key;
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SessionHttpTest, WhatIsTakenOutOfARequestOrAddedBreaksItsSignature) {
  for (const char* member : {"client_key", "version_max", "sealing"}) {
    TestHandshake handshake(wire::protocol_version_max);
    handshake.wanted["sealing"] = {"aes-256-gcm"};
    const std::string signed_body = handshake.body();
    for (const bool other : {false, true}) {
      nlohmann::json changed = handshake.wanted;
      changed.erase(member);
      if (other) changed[member] = TestHandshake(wire::protocol_version_max).wanted["client_key"];
      FakeExchange exchange("POST", "/-/session", changed.dump());
      sign(exchange, signed_body);
      serve(exchange);
      EXPECT_EQ(error_of(exchange), number(Errc::content_sha256_mismatch)) << member;
    }
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SessionHttpTest, AnOlderClientGetsItsVersionAndIsCounted) {
  const auto count = [] {
    return metrics::counter("verbena_native_sessions_without_forward_secrecy_total", "").value();
  };
  const uint64_t before = count();
  for (const unsigned version : {wire::version_of_key_exchange - 1, unsigned{wire::protocol_version_max}}) {
    TestHandshake handshake(version);
    if (version < wire::version_of_key_exchange) handshake.wanted["client_key"] = std::string(64, '9');  // ignored
    const auto exchange = answer_to(handshake);
    const auto answer = nlohmann::json::parse(exchange->response.body);
    EXPECT_EQ(answer["version"], version);
    EXPECT_EQ(answer.contains("server_key"), version >= wire::version_of_key_exchange);
    EXPECT_EQ(proof_of(*exchange),
              wire::answer_proof(handshake.master("secret/root", exchange->response.body), exchange->response.body));
  }
  EXPECT_EQ(count(), before + 1);
}

TEST_F(SessionHttpTest, AKeyThatIsUsedTwiceLeadsToOtherKeysEachTime) {
  TestHandshake first(wire::protocol_version_max), second(wire::protocol_version_max);
  second.wanted["client_key"] = first.wanted["client_key"];
  const auto one = answer_to(first), two = answer_to(second);
  ASSERT_EQ(two->response.status, 200);
  const auto key_of = [](const auto& exchange) {
    return nlohmann::json::parse(exchange->response.body)["server_key"].template get<std::string>();
  };
  EXPECT_NE(key_of(one), key_of(two)) << "the server's is new for each";
}

// What the secret key alone leads to, as it did before version 9, opens nothing.
TEST_F(SessionHttpTest, TheSecretKeyAndTheWireDoNotLeadToTheKeys) {
  const auto exchange = answer_to(handshake_);
  const auto answer = nlohmann::json::parse(exchange->response.body);
  wire::SessionNumbers seen{.session = std::stoull(answer["session"].get<std::string>(), nullptr, 16)};
  std::ranges::copy(*from_hex(handshake_.wanted["client_nonce"].get<std::string>()), seen.client.begin());
  std::ranges::copy(*from_hex(answer["server_nonce"].get<std::string>()), seen.server.begin());
  EXPECT_NE(proof_of(*exchange), wire::answer_proof(wire::derive_master("secret/root", seen), exchange->response.body));
}

TEST_F(SessionHttpTest, OtherPathsAreNotServed) {
  FakeExchange exchange("GET", "/bucket/key", "");
  serve(exchange);
  EXPECT_EQ(exchange.response.status, 405);
}

}  // namespace
}  // namespace verbena::native
