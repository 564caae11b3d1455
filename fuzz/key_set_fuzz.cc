// A provider's key set, and the claims of a token, as JSON documents: sign_in_token_fuzz reaches them only through
// base64url. The first byte selects. No key verifies a made-up signature, whatever algorithm is asked for; accepted
// claims are within their limits, and what they are called in policies is found again.
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "auth/attributes.h"
#include "sign_in/claims.h"
#include "sign_in/jwk.h"
#include "sign_in/strict_json.h"

namespace {

using namespace verbena::sign_in;

void expect(bool holds) {
  if (!holds) std::abort();
}

void read_keys(std::string_view text) {
  const auto keys = parse_key_set(text);
  if (!keys) return;
  expect(keys->keys.size() <= keys_max && text.size() <= key_set_bytes_max);
  static const std::vector<std::byte> signatures[] = {std::vector<std::byte>(64), std::vector<std::byte>(96),
                                                      std::vector<std::byte>(132, std::byte{1}),
                                                      std::vector<std::byte>(256, std::byte{0xff})};
  size_t tried = 0;
  for (const auto& key : keys->keys) {
    if (++tried > 4) break;  // each costs as much as a thousand documents
    for (int i = 0; i <= static_cast<int>(Algorithm::eddsa); ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (!key.fits(algorithm)) continue;
      for (const auto& signature : signatures) expect(!key.verifies(algorithm, "e30.e30", signature));
      break;
    }
  }
}

void read_claims(std::string_view text) {
  const auto claims = read_strict_object(text, 16);
  if (!claims) return;
  const auto issuer = issuer_of(*claims);
  if (issuer) (void)may_name_keys(*issuer);
  const std::vector<std::string> clients = {"app", "other"};
  const auto subject = check_claims(*claims, clients, 1'767'323'045);
  if (!subject) {
    expect(!subject.error().message.empty());
    return;
  }
  expect(!subject->name.empty() && subject->name.size() <= 255);
  expect(subject->audience == "app" || subject->audience == "other");
  const auto attributes = read_attributes(*claims, "idp.example.org/r", *subject);
  if (attributes) expect(attributes->tags.size() <= 50 && attributes->source_identity.size() <= 64);
  for (const char* key :
       {"idp.example.org/r:sub", "idp.example.org/r:aud", "idp.example.org/r:groups", "aws:username"}) {
    verbena::auth::FactValues values;
    const bool found = find_claim(*claims, "idp.example.org/r", *subject, key, values);
    expect(found || values.empty());
    if (found && std::string_view(key).ends_with(":sub")) expect(values.size() == 1 && values[0] == subject->name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    read_keys(text);
  } else {
    read_claims(text);
  }
  return 0;
}
