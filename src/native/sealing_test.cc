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
  nlohmann::json offer(const nlohmann::json& sealing, FakePeer* peer = nullptr,
                       unsigned version_max = wire::protocol_version_max) {
    TestHandshake handshake(version_max);
    handshake.wanted["providers"] = {"local", "verbs"};
    if (!sealing.is_null()) handshake.wanted["sealing"] = sealing;
    const auto exchange = answer_to(handshake);
    if (exchange->response.status != 200) return exchange->response.status;
    if (peer != nullptr) {
      peer->master = handshake.master("secret/root", exchange->response.body);
      peer->session = handshake.session();
      peer->keys = wire::derive_stream(peer->master, 1, !sealing.is_null());
    }
    return nlohmann::json::parse(exchange->response.body)["endpoints"];
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
  const auto plain = offer(nullptr);
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_FALSE(plain[1]["encrypted"].get<bool>());
  EXPECT_FALSE(plain[1].contains("sealed"));
  const auto sealed = offer({"aes-256-gcm", "chacha20-poly1305"});
  ASSERT_EQ(sealed.size(), 2u);
  EXPECT_FALSE(sealed[0].contains("sealed")) << "shared memory needs none";
  EXPECT_TRUE(sealed[1]["encrypted"].get<bool>());
  EXPECT_TRUE(sealed[1].contains("sealed"));
  EXPECT_EQ(offer({"chacha20-poly1305", "aes-256-gcm"})[1]["sealed"], "chacha20-poly1305") << "the client has no AES";
  EXPECT_EQ(offer({"rot13", "chacha20-poly1305"})[1]["sealed"], "chacha20-poly1305");
  EXPECT_EQ(offer({"aes-256-gcm"})[1]["sealed"], "aes-256-gcm");
}

TEST_F(SealingTest, AWishThatCannotBeReadOpensNoSession) {
  attach(true);
  EXPECT_EQ(offer({"rot13"}), 501);
  EXPECT_EQ(offer(nlohmann::json::array()), 400);
  EXPECT_EQ(offer("aes-256-gcm"), 400);
  EXPECT_EQ(offer({1, 2}), 400);
  EXPECT_EQ(offer(nlohmann::json::array_t(9, "aes-256-gcm")), 400);
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(SealingTest, APortThatRequiresItIsOfferedToNoOthers) {
  attach(false);
  FakePeer plain;
  const auto offered = offer(nullptr, &plain);
  ASSERT_EQ(offered.size(), 1u);
  EXPECT_EQ(offered[0]["provider"], "local");
  EXPECT_EQ(offer({"aes-256-gcm"}).size(), 2u);
  deliver(plain.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), 0, 1);
  EXPECT_EQ(answers(), 0u) << "it comes all the same";
}

constexpr unsigned before_exchange = wire::version_of_key_exchange - 1;

TEST_F(SealingTest, APortThatRequiresItIsOfferedToNoClientWithoutForwardSecrecy) {
  attach(false);
  FakePeer older, newer;
  const auto offered = offer({"aes-256-gcm"}, &older, before_exchange);
  ASSERT_EQ(offered.size(), 1u);
  EXPECT_EQ(offered[0]["provider"], "local");
  deliver(older.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), older.session, 1);
  EXPECT_EQ(answers(), 0u) << "it comes all the same";
  ASSERT_EQ(offer({"aes-256-gcm"}, &newer).size(), 2u);
  deliver(newer.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), newer.session, 1);
  EXPECT_EQ(answers(), 1u);
}

TEST_F(SealingTest, AnOlderClientIsSealedWhereItIsPreferred) {
  attach(true);
  FakePeer older;
  EXPECT_TRUE(offer({"aes-256-gcm"}, &older, before_exchange)[1].contains("sealed"));
  deliver(older.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), older.session, 1);
  EXPECT_EQ(answers(), 1u);
  EXPECT_FALSE(offer(nullptr, &older, before_exchange)[1].contains("sealed"));
  EXPECT_FALSE(door_->list_sessions().empty());
  for (const auto& view : door_->list_sessions()) EXPECT_FALSE(view.has_forward_secrecy);
}

TEST_F(SealingTest, ASealedSessionTakesNothingPlainAndNothingOfAnother) {
  attach(true);
  FakePeer peer;
  offer({"aes-256-gcm"}, &peer);
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

TEST_F(SealingTest, TheListOfSessionsNamesTheCipherOfTheirEndpointsInUse) {
  attach(true);
  const auto listed = [&](uint64_t session) {
    for (const auto& view : door_->list_sessions()) {
      if (view.id == session) return std::string(view.sealed);
    }
    return std::string("no such session");
  };
  FakePeer sealed, plain;
  offer({"chacha20-poly1305"}, &sealed);
  offer(nullptr, &plain);
  EXPECT_EQ(listed(sealed.session), "") << "nothing of it is in use";
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  deliver(sealed.seal(wire::Type::hello, 1, hello), sealed.session, 1);
  deliver(plain.seal(wire::Type::hello, 1, hello), 0, 2);
  ASSERT_EQ(answers(), 2u);
  EXPECT_EQ(listed(sealed.session), "chacha20-poly1305");
  EXPECT_EQ(listed(plain.session), "");
}

TEST_F(SealingTest, ASessionThatIsNotSealedDoesNotComeInAnothersEnvelope) {
  attach(true);
  FakePeer sealed, plain;
  offer({"aes-256-gcm"}, &sealed);
  offer(nullptr, &plain);
  deliver(plain.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), sealed.session,
          1);
  EXPECT_EQ(answers(), 0u);
}

// The time of day: signatures and credentials have it, sealed sessions do not.
TEST_F(SealingTest, ASealedSessionOutlivesClocksThatJumpAndIsNeverPlain) {
  attach(true);
  FakePeer peer;
  offer({"aes-256-gcm"}, &peer);
  deliver(peer.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = {}}), peer.session, 1);
  EXPECT_EQ(answers(), 1u);
  constexpr int64_t year_s = 365 * 24 * 3600;
  uint64_t request = 1;
  for (const int64_t shift_s : {year_s, -year_s, int64_t{0}}) {
    clock_.shift_s = shift_s;
    deliver(peer.seal(wire::Type::ping, ++request, Bytes()), 0, 1);
    EXPECT_EQ(answers(), 0u) << "plain, at " << shift_s;
    deliver(peer.seal(wire::Type::ping, ++request, Bytes()), peer.session, 1);
    EXPECT_EQ(answers(), 1u) << shift_s;
  }
}

TEST_F(SealingTest, CredentialsThatEndByAJumpOfTheClockEndTheirSealedSessionAndLeaveNoPlainOne) {
  attach(true);
  const auth::Credentials credentials{.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
  const int64_t hour_s = 3600, now_s = system_clock().now_us() / 1'000'000;
  credentials_.set(credentials, auth::superuser(), now_s + hour_s);
  FakePeer peer, renewed;
  offer({"aes-256-gcm"}, &peer);
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  deliver(peer.seal(wire::Type::hello, 1, hello), peer.session, 1);
  EXPECT_EQ(answers(), 1u);
  clock_.shift_s = 2 * hour_s;
  wire::Get get;
  get.bucket = "bucket";
  get.key = "none";
  deliver(peer.seal(wire::Type::head, 2, get), peer.session, 1);
  (void)answers();
  EXPECT_EQ(door_->sessions(), 0u);
  deliver(peer.seal(wire::Type::hello, 3, hello), 0, 1);
  EXPECT_EQ(answers(), 0u) << "plain";
  // The client opens another session, which is sealed again.
  credentials_.set(credentials);
  ASSERT_TRUE(offer({"aes-256-gcm"}, &renewed)[1].contains("sealed"));
  deliver(renewed.seal(wire::Type::hello, 1, hello), 0, 1);
  EXPECT_EQ(answers(), 0u);
  deliver(renewed.seal(wire::Type::hello, 1, hello), renewed.session, 1);
  EXPECT_EQ(answers(), 1u);
}

TEST_F(SealingTest, ThePortLearnsTheSessionsCipher) {
  attach(true);
  FakePeer peer, plain;
  offer({"chacha20-poly1305"}, &peer);
  offer(nullptr, &plain);
  fabric::ConnectionKey key;
  ASSERT_TRUE(device_.find_key(peer.session, &key));
  EXPECT_EQ(key.sealing, fabric::Sealing::chacha20_poly1305);
  EXPECT_EQ(to_hex(key.bytes), to_hex(wire::derive_connection(peer.master, 1)));
  ASSERT_TRUE(device_.find_key(plain.session, &key));
  EXPECT_EQ(key.sealing, fabric::Sealing::none);
}

}  // namespace
}  // namespace verbena::native
