// A token and a key set from outside, split at the first line break. For any input: no crash, no key verifies a changed
// token, and accepted claims are within their limits.
#include <algorithm>
#include <cstdlib>

#include "sign_in/claims.h"
#include "sign_in/jwk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::sign_in;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\n'), input.size());
  const auto keys = parse_key_set(input.substr(std::min(end + 1, input.size())));
  const auto token = Jwt::parse(input.substr(0, end));
  if (!token) return 0;
  if (keys) (void)verify(*keys, *token);
  const std::vector<std::string> clients = {"app"};
  const auto subject = check_claims(token->claims, clients, 1'767'323'045);
  if (!subject) return 0;
  if (subject->audience != "app" || subject->name.empty() || subject->name.size() > 255) std::abort();
  const auto attributes = read_attributes(token->claims, "idp.example.org/r", *subject);
  if (attributes && (attributes->tags.size() > 50 || attributes->source_identity.size() > 64)) std::abort();
  return 0;
}
