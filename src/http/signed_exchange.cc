#include "http/signed_exchange.h"

#include <vector>

namespace verbena::http {

Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange,
                                     auth::AuthFailures* auth_failures, const auth::NetworkRules* networks) {
  std::vector<auth::HeaderView> headers;
  for (const auto& [name, value] : exchange.headers()) headers.push_back({name, value});
  const auth::RequestView view{exchange.method(), exchange.path(), exchange.query(), headers};
  if (auth_failures != nullptr) VB_TRY(auth_failures->check(exchange.peer_address(), view));
  auto verified = verifier.verify(view);
  if (!verified && auth_failures != nullptr) auth_failures->note(exchange.peer_address(), view, verified.error());
  if (verified && verified->identity.anonymous)
    return fail(Errc::access_denied, "http: this request needs a signature");
  if (verified && networks != nullptr) VB_TRY(networks->check_caller(exchange.peer_address(), verified->identity));
  return verified;
}

}  // namespace verbena::http
