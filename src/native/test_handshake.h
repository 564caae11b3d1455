// For tests, fuzzers and benchmarks: a client's side of the request that opens a session, step by step.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "native/wire/message.h"

namespace verbena::native {

// One request. From version 9 on with a key for its exchange.
class TestHandshake {
 public:
  explicit TestHandshake(unsigned version_max = 1) : wanted{{"version", 1}} {
    fill_random(numbers_.client);
    wanted["client_nonce"] = to_hex(numbers_.client);
    if (version_max > 1) wanted["version_max"] = version_max;
    if (version_max < wire::version_of_key_exchange) return;
    key_ = *EphemeralKey::make();
    wanted["client_key"] = to_hex(key_.public_key());
  }

  nlohmann::json wanted;  // may be changed until body()
  const std::string& body() { return body_ = wanted.dump(); }

  uint64_t session() const { return numbers_.session; }
  // The session's master key by the answer that has come for body(). Once: the private key is gone then.
  wire::MasterKey master(std::string_view secret_key, const std::string& answered) {
    const auto answer = nlohmann::json::parse(answered);
    numbers_.session = std::stoull(answer["session"].get<std::string>(), nullptr, 16);
    read(answer["server_nonce"], numbers_.server);
    if (answer["version"] < wire::version_of_key_exchange) return wire::derive_master(secret_key, numbers_);
    wire::KeyExchange exchange{.request = sha256_of(as_bytes(body_)), .client = key_.public_key(), .server = {}};
    read(answer["server_key"], exchange.server);
    return wire::derive_master(secret_key, numbers_, exchange, key_.agree(exchange.server).value());
  }

 private:
  static void read(const nlohmann::json& text, MutableBytes into) {
    std::ranges::copy(from_hex(text.get<std::string>()).value(), into.begin());
  }

  wire::SessionNumbers numbers_;
  EphemeralKey key_;
  std::string body_;
};

}  // namespace verbena::native
