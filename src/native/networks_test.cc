// Rules for clients' networks at the native door: who may open a session, and which endpoints it gets.
#include "auth/network_rules.h"
#include "native/test_door.h"

namespace verbena::native {
namespace {

const auth::NetworkRules& test_rules() {
  static const auth::NetworkRules rules =
      *auth::NetworkRules::make({{.networks = {"10.0.0.0/16"}, .accounts = {{std::string(auth::root_account_id)}}},
                                 {.networks = {"10.1.0.0/16"}, .accounts = {{"111111111111"}}},
                                 {.networks = {"10.2.0.0/16"}, .encryption = RdmaEncryption::off},
                                 {.networks = {"10.3.0.0/16"}, .encryption = RdmaEncryption::required}},
                                RdmaEncryption::preferred);
  return rules;
}

class NativeNetworks : public DoorTest {
 protected:
  NativeNetworks() : DoorTest({.networks = &test_rules()}) {
    device_.can_seal = true;
    EXPECT_TRUE(door_->attach(core_, device_, "verbs;ofi_rxm", "device"));
  }
  // The answer to a session's request from there; its status if it was refused.
  nlohmann::json offer(const std::string& from, bool seals, FakePeer* peer = nullptr,
                       unsigned version_max = wire::protocol_version_max) {
    TestHandshake handshake(version_max);
    if (seals) handshake.wanted["sealing"] = {"aes-256-gcm"};
    client_address_ = from;
    const auto exchange = answer_to(handshake);
    if (exchange->response.status != 200) return exchange->response.status;
    if (peer != nullptr) {
      peer->master = handshake.master("secret/root", exchange->response.body);
      peer->session = handshake.session();
    }
    return nlohmann::json::parse(exchange->response.body)["endpoints"];
  }
  size_t answers_to_hello(FakePeer& peer, uint64_t sealed_by) {
    peer.keys = wire::derive_stream(peer.master, 1, sealed_by != 0);
    device_.sealed_by = sealed_by;
    device_.receive(1, peer.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}));
    device_.sealed_by = 0;
    run();
    return std::exchange(device_.sent, {}).size();
  }

  FakePort device_;
};

TEST_F(NativeNetworks, AnAccountGetsSessionsWhereItMayBeUsed) {
  EXPECT_EQ(offer("10.0.0.1", false).size(), 2u);
  EXPECT_EQ(offer("10.1.0.1", false), 403);
  EXPECT_EQ(offer("::ffff:10.1.0.1", false), 403);
  EXPECT_EQ(offer("192.168.0.1", false).size(), 2u) << "no entry holds it";
  EXPECT_EQ(offer("", false), 403) << "an address that cannot be read";
  EXPECT_EQ(door_->sessions(), 2u);
}

TEST_F(NativeNetworks, AnOpenSessionEndsWhenItsKeyIsOfAnAccountThatMayNotBeUsedThere) {
  client_address_ = "10.0.0.1";
  const FakePeer peer = hello();
  FakePeer asking = peer;
  asking.sequence = peer.sequence;
  wire::Get get;
  get.bucket = "bucket";
  get.key = "none";
  deliver(asking, asking.seal(wire::Type::head, 2, get));
  EXPECT_EQ(reply_code(asking), Errc::no_such_key);
  auth::Principal other;
  other.account = std::make_shared<const auth::Account>(auth::Account{"222222222222", "canonical", "name", ""});
  credentials_.set({.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}},
                   std::make_shared<const auth::Principal>(std::move(other)));
  for (uint64_t request : {3, 4}) {
    deliver(asking, asking.seal(wire::Type::head, request, get));
    EXPECT_EQ(reply_code(asking), Errc::access_denied);
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(NativeNetworks, EncryptionIsThatOfTheClientsNetwork) {
  const auto plain_only = offer("10.2.0.1", true);
  ASSERT_EQ(plain_only.size(), 2u);
  EXPECT_FALSE(plain_only[1].contains("sealed")) << "never, there";
  EXPECT_FALSE(plain_only[1]["encrypted"].get<bool>());
  const auto sealed = offer("10.3.0.1", true);
  ASSERT_EQ(sealed.size(), 2u);
  EXPECT_TRUE(sealed[1].contains("sealed"));
  const auto asks_none = offer("10.3.0.1", false);
  ASSERT_EQ(asks_none.size(), 1u) << "the device is for sealed sessions alone";
  EXPECT_EQ(asks_none[0]["provider"], "local") << "shared memory does not leave the host";
  EXPECT_TRUE(offer("192.168.0.1", true)[1].contains("sealed"));
  EXPECT_FALSE(offer("192.168.0.1", false)[1].contains("sealed"));
}

TEST_F(NativeNetworks, WhereEncryptionIsRequiredItHasForwardSecrecy) {
  constexpr unsigned before_exchange = wire::version_of_key_exchange - 1;
  FakePeer older;
  EXPECT_EQ(offer("10.3.0.1", true, &older, before_exchange).size(), 1u) << "shared memory alone";
  EXPECT_EQ(answers_to_hello(older, older.session), 0u);
  EXPECT_TRUE(offer("192.168.0.1", true, nullptr, before_exchange)[1].contains("sealed"));
}

TEST_F(NativeNetworks, WhatIsNotOfferedIsNotTaken) {
  FakePeer plain, sealed, elsewhere;
  offer("10.3.0.1", false, &plain);
  EXPECT_EQ(answers_to_hello(plain, 0), 0u);
  offer("10.3.0.1", true, &sealed);
  EXPECT_EQ(answers_to_hello(sealed, 0), 0u);
  EXPECT_EQ(answers_to_hello(sealed, sealed.session), 1u);
  offer("10.2.0.1", true, &elsewhere);
  EXPECT_EQ(answers_to_hello(elsewhere, elsewhere.session), 0u) << "it was told that it is plain";
  EXPECT_EQ(answers_to_hello(elsewhere, 0), 1u);
}

}  // namespace
}  // namespace verbena::native
