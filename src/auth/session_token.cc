#include "auth/session_token.h"

#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

// Another one for sessions of buckets, so that no server takes such a token for one without limits.
constexpr std::string_view token_seal_context = "session token", bucket_seal_context = "bucket session token";
constexpr int format = 2;  // 1 did not name the key that it goes back to

bool read_text(const Json& json, const char* name, std::string& out) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return false;
  out = found->get_ref<const std::string&>();
  return true;
}

bool read_number(const Json& json, const char* name, int64_t& out) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) return false;
  out = found->get<int64_t>();
  return true;
}

bool read_arns(const Json& json, std::vector<std::string>& out) {
  const auto found = json.find("arns");
  if (found == json.end() || !found->is_array() || found->size() > session_policy_arns_max) return false;
  for (const Json& arn : *found) {
    if (!arn.is_string()) return false;
    out.push_back(arn.get<std::string>());
  }
  return true;
}

bool read_limits(const Json& json, std::optional<BucketSession>& out) {
  const auto found = json.find("limits");
  if (found == json.end()) return true;
  out.emplace();
  const auto read_only = found->find("read_only");
  if (read_only == found->end() || !read_only->is_boolean()) return false;
  out->read_only = read_only->get<bool>();
  return read_text(*found, "bucket", out->bucket) && !out->bucket.empty() &&
         read_text(*found, "sse", out->encryption) && read_text(*found, "kms", out->kms_key_id);
}

}  // namespace

std::string encode_grant(const SessionGrant& grant) {
  Json json = {{"v", format},
               {"key", grant.access_key},
               {"secret", grant.secret_key},
               {"expires", grant.expires_s},
               {"account", grant.account_id},
               {"kind", static_cast<int>(grant.kind)},
               {"subject", grant.subject},
               {"id", grant.subject_id},
               {"session", grant.session_name},
               {"policy", grant.policy},
               {"arns", grant.policy_arns},
               {"issued", grant.issued_s},
               {"parent", grant.parent_key},
               {"tag", grant.parent_tag}};
  if (grant.limits) {
    json["limits"] = {{"bucket", grant.limits->bucket},
                      {"read_only", grant.limits->read_only},
                      {"sse", grant.limits->encryption},
                      {"kms", grant.limits->kms_key_id}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<SessionGrant> decode_grant(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  SessionGrant grant;
  int64_t version = 0, kind = 0;
  const bool whole = read_number(json, "v", version) && version == format && read_number(json, "kind", kind) &&
                     read_number(json, "expires", grant.expires_s) && read_text(json, "key", grant.access_key) &&
                     read_text(json, "secret", grant.secret_key) && read_text(json, "account", grant.account_id) &&
                     read_text(json, "subject", grant.subject) && read_text(json, "id", grant.subject_id) &&
                     read_text(json, "session", grant.session_name) && read_text(json, "policy", grant.policy) &&
                     read_number(json, "issued", grant.issued_s) && read_text(json, "parent", grant.parent_key) &&
                     read_text(json, "tag", grant.parent_tag) && read_arns(json, grant.policy_arns);
  // Every session has an end: a grant without one was not made by this server.
  if (!whole || grant.expires_s <= 0 || kind < 0 || kind > static_cast<int>(Principal::Kind::assumed_role)) {
    return std::nullopt;
  }
  grant.kind = static_cast<Principal::Kind>(kind);
  if (!read_limits(json, grant.limits)) return std::nullopt;
  return grant;
}

std::string seal_session(const KeyRing& keys, const SessionGrant& grant) {
  const std::string_view context = grant.limits ? bucket_seal_context : token_seal_context;
  return to_base64(as_bytes(keys.seal(as_bytes(encode_grant(grant)), context)));
}

Result<SessionGrant> open_session(const KeyRing& keys, std::string_view token) {
  if (token.size() > session_token_bytes_max) return fail(Errc::invalid_token, "auth: session token too long");
  const auto sealed = from_base64(token);
  if (!sealed) return fail(Errc::invalid_token, "auth: session token is not base64");
  auto plain = keys.unseal(*sealed, token_seal_context);
  const bool limited = !plain;
  if (limited) plain = keys.unseal(*sealed, bucket_seal_context);
  if (!plain) return fail(Errc::invalid_token, "auth: session token does not open");
  auto grant = decode_grant(plain->text());
  if (!grant || grant->limits.has_value() != limited)
    return fail(Errc::invalid_token, "auth: session token's contents");
  return std::move(*grant);
}

}  // namespace verbena::auth
