#include "http/signed_exchange.h"

#include <vector>

namespace verbena::http {

Result<auth::Verified> verify_signed(const auth::Verifier& verifier, const Exchange& exchange) {
  std::vector<auth::HeaderView> headers;
  for (const auto& [name, value] : exchange.headers()) headers.push_back({name, value});
  VB_ASSIGN(auto verified, verifier.verify({exchange.method(), exchange.path(), exchange.query(), headers}));
  if (verified.identity.anonymous) return fail(Errc::access_denied, "http: this request needs a signature");
  return verified;
}

}  // namespace verbena::http
