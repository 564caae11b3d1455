#include "native/wire/keys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/checksum.h"

namespace verbena::native::wire {
namespace {

TEST(Keys, BothDirectionsEachEndpointAndEachSessionHaveTheirOwn) {
  Nonce client{}, server{};
  server[0] = std::byte{1};
  const MasterKey master = derive_master("secret", {client, server, 7});
  const auto equal = [](const MacKey& a, const MacKey& b) { return equal_constant_time(a.bytes, b.bytes); };
  const StreamKeys stream = derive_stream(master, 0);
  EXPECT_FALSE(equal(stream.to_server, stream.to_client));
  EXPECT_FALSE(equal(stream.to_server, derive_stream(master, 1).to_server));
  EXPECT_NE(derive_connection(master, 0), derive_connection(master, 1));
  EXPECT_EQ(derive_connection(master, 0), derive_connection(derive_master("secret", {client, server, 7}), 0));
  EXPECT_NE(derive_connection(master, 0), derive_connection(derive_master("Secret", {client, server, 7}), 0));
  EXPECT_TRUE(equal(stream.to_server, derive_stream(derive_master("secret", {client, server, 7}), 0).to_server));
  EXPECT_FALSE(equal(stream.to_server, derive_stream(derive_master("secret", {client, server, 8}), 0).to_server));
  EXPECT_FALSE(equal(stream.to_server, derive_stream(derive_master("Secret", {client, server, 7}), 0).to_server));
  EXPECT_FALSE(equal(stream.to_server, derive_stream(derive_master("secret", {server, client, 7}), 0).to_server));
  EXPECT_NE(answer_proof(master, "a"), answer_proof(master, "b"));
}

TEST(Keys, ObjectsSpreadOverTheCores) {
  std::vector<int> count(4);
  for (int i = 0; i < 1000; ++i) ++count[core_of("bucket", "key/" + std::to_string(i), 4)];
  for (int n : count) EXPECT_GT(n, 150);
  EXPECT_EQ(core_of("b", "k", 1), 0u);
}

struct Exchanged {
  SessionNumbers numbers{.client = {std::byte{1}}, .server = {std::byte{2}}, .session = 7};
  KeyExchange exchange{.request = {std::byte{3}}, .client = {std::byte{4}}, .server = {std::byte{5}}};
  Secret shared{Bytes(std::vector<std::byte>(32, std::byte{6}))};
  std::string secret_key = "secret";
  std::string master() const { return to_hex(derive_master(secret_key, numbers, exchange, shared).bytes); }
};

TEST(Keys, AllThatWasExchangedLeadsToThem) {
  const std::string master = Exchanged().master();
  EXPECT_EQ(Exchanged().master(), master);
  const auto differs = [&](auto change) {
    Exchanged other;
    change(other);
    return other.master() != master;
  };
  EXPECT_TRUE(differs([](Exchanged& e) { e.secret_key = "Secret"; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.shared.writable()[31] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.numbers.client[15] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.numbers.server[15] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { std::swap(e.numbers.client, e.numbers.server); }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.numbers.session = 8; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.exchange.request[31] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.exchange.client[31] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { e.exchange.server[31] ^= std::byte{1}; }));
  EXPECT_TRUE(differs([](Exchanged& e) { std::swap(e.exchange.client, e.exchange.server); }));
  EXPECT_NE(to_hex(derive_master("secret", Exchanged().numbers).bytes), master);
}

// tests/sealed/vectors.json, which an independent implementation wrote.
TEST(Keys, AreThoseOfTheVectors) {
  std::ifstream file(VERBENA_SOURCE_DIR "/tests/sealed/vectors.json");
  const auto vectors = nlohmann::json::parse(file);
  int with_exchange = 0, without = 0;
  for (const auto& vector : vectors) {
    if (vector["what"] != "session") continue;
    const auto text = [&vector](const char* name) { return vector[name].get<std::string>(); };
    const auto read = [&text](const char* name, MutableBytes into) {
      std::ranges::copy(from_hex(text(name)).value(), into.begin());
    };
    SessionNumbers numbers{.session = vector["session"]};
    read("client_nonce", numbers.client);
    read("server_nonce", numbers.server);
    MasterKey master = derive_master(text("secret_key"), numbers);
    if (vector["version"] >= version_of_key_exchange) {
      ++with_exchange;
      auto client = EphemeralKey::from(Secret(from_hex(text("client_private")).value()));
      auto server = EphemeralKey::from(Secret(from_hex(text("server_private")).value()));
      EXPECT_EQ(to_hex(client->public_key()), text("client_key"));
      EXPECT_EQ(to_hex(server->public_key()), text("server_key"));
      const auto shared = client->agree(server->public_key()), same = server->agree(client->public_key());
      EXPECT_EQ(to_hex(shared->bytes()), text("shared"));
      EXPECT_EQ(to_hex(same->bytes()), text("shared"));
      const KeyExchange exchange{.request = sha256_of(as_bytes(text("request"))),
                                 .client = client->public_key(),
                                 .server = server->public_key()};
      master = derive_master(text("secret_key"), numbers, exchange, *shared);
    } else {
      ++without;
    }
    EXPECT_EQ(to_hex(master.bytes), text("master"));
    const uint16_t endpoint = vector["endpoint"];
    const StreamKeys keys = derive_stream(master, endpoint);
    EXPECT_EQ(to_hex(std::as_bytes(std::span(keys.to_server.bytes))), text("to_server"));
    EXPECT_EQ(to_hex(std::as_bytes(std::span(keys.to_client.bytes))), text("to_client"));
    EXPECT_EQ(to_hex(derive_connection(master, endpoint)), text("connection"));
    EXPECT_EQ(answer_proof(master, text("answer")), text("proof"));
  }
  EXPECT_EQ(with_exchange, 2);
  EXPECT_EQ(without, 1);
}

}  // namespace
}  // namespace verbena::native::wire
