// Discovery of an issuer's keys: OpenID Connect Discovery 1.0.
#include <nlohmann/json.hpp>

#include "sign_in/provider_keys.h"
#include "sign_in/strict_json.h"

namespace verbena::sign_in {
namespace {

constexpr std::chrono::seconds fetch_max{10};  // both documents together
constexpr int configuration_depth_max = 8;

}  // namespace

Result<KeySet> fetch_keys(const Issuer& issuer, const HttpsRules& rules, const std::atomic<bool>& stop) {
  const Deadline until = deadline_in(fetch_max);
  const std::string name = "https://" + issuer.url;
  const auto place = parse_https_url(name + (name.ends_with('/') ? "" : "/") + ".well-known/openid-configuration");
  if (!place) return fail(Errc::malformed, "sign-in: the server may not connect to the provider's URL");
  VB_ASSIGN(const std::string text, https_get(*place, issuer.thumbprints, rules, until, stop));
  const auto configuration = read_strict_object(text, configuration_depth_max);
  if (!configuration) return fail(Errc::malformed, "sign-in: the provider's configuration is no JSON object");
  // A server that answers for one issuer must not be able to answer for another.
  if (text_of(*configuration, "issuer") != name) {
    return fail(Errc::malformed, "sign-in: the provider's configuration names another issuer");
  }
  const auto keys_url = parse_https_url(text_of(*configuration, "jwks_uri"));
  if (!keys_url) return fail(Errc::malformed, "sign-in: the provider's jwks_uri is no https URL");
  VB_ASSIGN(const std::string keys, https_get(*keys_url, issuer.thumbprints, rules, until, stop));
  return parse_key_set(keys);
}

}  // namespace verbena::sign_in
