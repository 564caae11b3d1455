// The body of a signed request that opens a native session, and the exchange of keys with what it names.
#include <cstdlib>

#include "native/session_request.h"
#include "native/wire/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = native::parse_session_request(body);
  if (!request) return 0;
  if (request->version < 1 || request->version > native::wire::newest_version()) std::abort();
  if (request->providers.size() > 16 || request->user_agent.size() > 256) std::abort();
  native::SessionKeyMaker keys(*request, sha256_of(as_bytes(body)), "secret");
  const auto master = keys.master(1);
  const bool exchanges = request->version >= native::wire::version_of_key_exchange;
  if (exchanges != keys.server_key().has_value() || (!exchanges && !master)) std::abort();
  if (!master) return 0;
  // The secret key and the numbers alone lead to another key.
  const native::wire::SessionNumbers numbers{.client = request->nonce, .server = keys.server_nonce(), .session = 1};
  if (exchanges == (native::wire::derive_master("secret", numbers).bytes == master->bytes)) std::abort();
  return 0;
}
