// Sessions on a port that seals: what is offered, and what is taken.
#include "native/test_door.h"

namespace verbena::native {
namespace {

class SealingTest : public DoorTest {
 protected:
  void attach(bool takes_plain) {
    device_.can_seal = true;
    device_.takes_others = takes_plain;
    EXPECT_TRUE(door_->attach(core_, device_, "verbs;ofi_rxm", "device"));
  }
  // The answer to a session's request with these ciphers; its error's number if it was refused.
  nlohmann::json ask(const nlohmann::json& sealing, FakePeer* peer = nullptr) {
    wire::Nonce nonce;
    fill_random(nonce);
    nlohmann::json wanted{{"version", 1}, {"client_nonce", to_hex(nonce)}, {"providers", {"local", "verbs"}}};
    if (!sealing.is_null()) wanted["sealing"] = sealing;
    const std::string body = wanted.dump();
    FakeExchange exchange("POST", "/-/session", body);
    exchange.peer = client_address_;
    sign(exchange, body);
    serve(exchange);
    if (exchange.response.status != 200) return exchange.response.status;
    const auto answer = nlohmann::json::parse(exchange.response.body);
    if (peer == nullptr) return answer["endpoints"];
    wire::Nonce server;
    std::ranges::copy(*from_hex(answer["server_nonce"].get<std::string>()), server.begin());
    peer->session = std::stoull(answer["session"].get<std::string>(), nullptr, 16);
    peer->master = wire::derive_master("secret/root", nonce, server, peer->session);
    peer->keys = wire::derive_stream(peer->master, 1, !sealing.is_null());
    return answer["endpoints"];
  }
  // Delivers a message to the device's port, sealed by that session; 0: plain.
  void deliver(const std::vector<std::byte>& message, uint64_t sealed_by, fabric::PeerId from) {
    device_.sealed_by = sealed_by;
    device_.receive(from, message);
    device_.sealed_by = 0;
    run();
  }
  size_t answers() { return std::exchange(device_.sent, {}).size(); }

  FakePort device_;
};

TEST_F(SealingTest, IsOfferedToClientsThatAskForIt) {
  attach(true);
  const auto plain = ask(nullptr);
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_FALSE(plain[1]["encrypted"].get<bool>());
  EXPECT_FALSE(plain[1].contains("sealed"));
  const auto sealed = ask({"aes-256-gcm", "chacha20-poly1305"});
  ASSERT_EQ(sealed.size(), 2u);
  EXPECT_FALSE(sealed[0].contains("sealed")) << "shared memory needs none";
  EXPECT_TRUE(sealed[1]["encrypted"].get<bool>());
  EXPECT_TRUE(sealed[1].contains("sealed"));
  EXPECT_EQ(ask({"chacha20-poly1305", "aes-256-gcm"})[1]["sealed"], "chacha20-poly1305") << "the client has no AES";
  EXPECT_EQ(ask({"rot13", "chacha20-poly1305"})[1]["sealed"], "chacha20-poly1305");
  EXPECT_EQ(ask({"aes-256-gcm"})[1]["sealed"], "aes-256-gcm");
}

TEST_F(SealingTest, AWishThatCannotBeReadOpensNoSession) {
  attach(true);
  EXPECT_EQ(ask({"rot13"}), 501);
  EXPECT_EQ(ask(nlohmann::json::array()), 400);
  EXPECT_EQ(ask("aes-256-gcm"), 400);
  EXPECT_EQ(ask({1, 2}), 400);
  EXPECT_EQ(ask(nlohmann::json::array_t(9, "aes-256-gcm")), 400);
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SealingTest, APortThatRequiresItIsOfferedToNoOthers) {
  attach(false);
  FakePeer plain;
  const auto offered = ask(nullptr, &plain);
  ASSERT_EQ(offered.size(), 1u);
  EXPECT_EQ(offered[0]["provider"], "local");
  EXPECT_EQ(ask({"aes-256-gcm"}).size(), 2u);
  deliver(plain.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), 0, 1);
  EXPECT_EQ(answers(), 0u) << "it comes all the same";
}

TEST_F(SealingTest, ASealedSessionTakesNothingPlainAndNothingOfAnother) {
  attach(true);
  FakePeer peer;
  ask({"aes-256-gcm"}, &peer);
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  deliver(peer.seal(wire::Type::hello, 1, hello), 0, 1);
  deliver(peer.seal(wire::Type::hello, 1, hello), peer.session + 1, 1);
  EXPECT_EQ(answers(), 0u);
  deliver(peer.seal(wire::Type::hello, 1, hello), peer.session, 1);
  EXPECT_EQ(answers(), 1u);
  deliver(peer.seal(wire::Type::ping, 2, Bytes()), 0, 1);
  deliver(peer.seal(wire::Type::ping, 3, Bytes()), peer.session + 1, 1);
  EXPECT_EQ(answers(), 0u);
  deliver(peer.seal(wire::Type::ping, 4, Bytes()), peer.session, 1);
  EXPECT_EQ(answers(), 1u);
}

TEST_F(SealingTest, ASessionThatIsNotSealedDoesNotComeInAnothersEnvelope) {
  attach(true);
  FakePeer sealed, plain;
  ask({"aes-256-gcm"}, &sealed);
  ask(nullptr, &plain);
  deliver(plain.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), sealed.session,
          1);
  EXPECT_EQ(answers(), 0u);
}

TEST_F(SealingTest, ThePortLearnsTheSessionsCipher) {
  attach(true);
  FakePeer peer, plain;
  ask({"chacha20-poly1305"}, &peer);
  ask(nullptr, &plain);
  fabric::ConnectionKey key;
  ASSERT_TRUE(device_.find_key(peer.session, &key));
  EXPECT_EQ(key.sealing, fabric::Sealing::chacha20_poly1305);
  EXPECT_EQ(to_hex(key.bytes), to_hex(wire::derive_connection(peer.master, 1)));
  ASSERT_TRUE(device_.find_key(plain.session, &key));
  EXPECT_EQ(key.sealing, fabric::Sealing::none);
}

}  // namespace
}  // namespace verbena::native
