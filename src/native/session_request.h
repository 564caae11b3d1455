// The body of the request that opens a session, and what becomes of it: the session's keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "native/wire/keys.h"

namespace verbena::native {

struct SessionRequest {
  wire::Nonce nonce{};
  std::vector<std::string> providers;  // none: all
  unsigned version = 1;                // the newest that both sides have
  EphemeralKey::Public key{};          // from version 9 on
  std::string user_agent;
  fabric::Sealing sealing = fabric::Sealing::none;
};

// invalid_request: a member cannot be read; not_implemented: the client's version, or all of its ciphers, are unknown.
Result<SessionRequest> parse_session_request(std::string_view body);

// The server's side of a session's keys.
class SessionKeyMaker {
 public:
  // `body_sha256`: of the request's body. `secret_key` outlives the maker.
  SessionKeyMaker(const SessionRequest& request, const Sha256& body_sha256, std::string_view secret_key);

  // The master key of the session with this id. From version 9 on the first call makes the server's ephemeral key and
  // computes the shared secret, some 0.1 ms. invalid_argument: the client's key gives none.
  Result<wire::MasterKey> master(uint64_t session);

  // For the answer.
  const wire::Nonce& server_nonce() const { return numbers_.server; }
  std::optional<EphemeralKey::Public> server_key() const;  // nullopt: of a version without

 private:
  bool exchanges() const { return version_ >= wire::version_of_key_exchange; }

  unsigned version_;
  std::string_view secret_key_;
  wire::SessionNumbers numbers_;
  wire::KeyExchange exchange_;
  Secret shared_;
};

}  // namespace verbena::native
