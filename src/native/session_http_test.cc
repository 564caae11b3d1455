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
  static std::string number(Errc code) { return std::to_string(static_cast<unsigned>(code)); }
  std::string body_ = wanted(wire::Nonce{});
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
  wire::Nonce server;
  std::ranges::copy(*from_hex(answer["server_nonce"].get<std::string>()), server.begin());
  const auto master = wire::derive_master("secret/root", wire::Nonce{}, server,
                                          std::stoull(answer["session"].get<std::string>(), nullptr, 16));
  std::string proof;
  for (const auto& [name, value] : exchange.response.headers) {
    if (name == "x-verbena-proof") proof = value;
  }
  EXPECT_EQ(proof, wire::answer_proof(master, exchange.response.body));
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
  wire::Nonce other{};
  other[0] = std::byte{1};
  FakeExchange exchange("POST", "/-/session", wanted(other));
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
  wire::Nonce nonce;
  fill_random(nonce);
  const std::string body = wanted(nonce);
  FakeExchange exchange("POST", "/-/session", body);
  sign(exchange, body);
  serve(exchange);
  EXPECT_EQ(error_of(exchange), number(Errc::slow_down));
  EXPECT_EQ(exchange.response.status, 503);
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
    FakeExchange exchange("POST", "/-/session", body);
    sign(exchange, body);
    serve(exchange);
    EXPECT_GE(exchange.response.status, 400) << body;
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SessionHttpTest, OtherPathsAreNotServed) {
  FakeExchange exchange("GET", "/bucket/key", "");
  serve(exchange);
  EXPECT_EQ(exchange.response.status, 405);
}

}  // namespace
}  // namespace verbena::native
