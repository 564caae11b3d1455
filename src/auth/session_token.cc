#include "auth/session_token.h"

#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

// Sessions of buckets have another context, so that no server takes such a token for one without limits.
constexpr std::string_view token_seal_context = "session token", bucket_seal_context = "bucket session token";
constexpr int format = 2;  // 1 lacked the long-term key

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

bool read_not_after(const Json& json, int64_t& out) {
  return !json.contains("not_after") || (read_number(json, "not_after", out) && out > 0);
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

Json encode_attributes(const Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [key, value] : attributes.tags) json["tags"][key] = value;
  if (!attributes.transitive.empty()) json["transitive"] = attributes.transitive;
  if (!attributes.source_identity.empty()) json["source"] = attributes.source_identity;
  for (const auto& [key, values] : attributes.claims) json["claims"][key] = values;
  return json;
}

bool read_texts(const Json& list, std::vector<std::string>& out) {
  if (!list.is_array()) return false;
  for (const Json& text : list) {
    if (!text.is_string()) return false;
    out.push_back(text.get<std::string>());
  }
  return true;
}

bool read_attributes(const Json& json, Attributes& out) {
  const auto found = json.find("attributes");
  if (found == json.end()) return true;
  if (!found->is_object()) return false;
  for (const auto& [name, value] : found->items()) {
    if (name == "source" && value.is_string()) {
      out.source_identity = value.get<std::string>();
    } else if (name == "transitive") {
      if (!read_texts(value, out.transitive)) return false;
    } else if (name == "tags" && value.is_object()) {
      for (const auto& [key, tag] : value.items()) {
        if (!tag.is_string()) return false;
        out.tags.emplace(key, tag.get<std::string>());
      }
    } else if (name == "claims" && value.is_object()) {
      for (const auto& [key, values] : value.items()) {
        if (!read_texts(values, out.claims[key])) return false;
      }
    } else {
      return false;  // not made by this server, and it may be a limit
    }
  }
  return true;
}

}  // namespace

std::string encode_session(const SessionContents& contents) {
  Json json = {{"v", format},
               {"key", contents.access_key},
               {"secret", contents.secret_key},
               {"expires", contents.expires_s},
               {"account", contents.account_id},
               {"kind", static_cast<int>(contents.kind)},
               {"subject", contents.subject},
               {"id", contents.subject_id},
               {"session", contents.session_name},
               {"policy", contents.policy},
               {"arns", contents.policy_arns},
               {"issued", contents.issued_s},
               {"parent", contents.parent_key},
               {"tag", contents.parent_tag}};
  if (contents.not_after_s != 0) json["not_after"] = contents.not_after_s;
  if (contents.limits) {
    json["limits"] = {{"bucket", contents.limits->bucket},
                      {"read_only", contents.limits->read_only},
                      {"sse", contents.limits->encryption},
                      {"kms", contents.limits->kms_key_id}};
  }
  if (!contents.attributes.empty()) json["attributes"] = encode_attributes(contents.attributes);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<SessionContents> decode_session(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  SessionContents contents;
  int64_t version = 0, kind = 0;
  const bool whole = read_number(json, "v", version) && version == format && read_number(json, "kind", kind) &&
                     read_number(json, "expires", contents.expires_s) && read_text(json, "key", contents.access_key) &&
                     read_text(json, "secret", contents.secret_key) &&
                     read_text(json, "account", contents.account_id) && read_text(json, "subject", contents.subject) &&
                     read_text(json, "id", contents.subject_id) && read_text(json, "session", contents.session_name) &&
                     read_text(json, "policy", contents.policy) && read_number(json, "issued", contents.issued_s) &&
                     read_text(json, "parent", contents.parent_key) && read_text(json, "tag", contents.parent_tag) &&
                     read_arns(json, contents.policy_arns) && read_not_after(json, contents.not_after_s);
  // Every session ends: contents without an end were not made by this server.
  if (!whole || contents.expires_s <= 0 || kind < 0 || kind > static_cast<int>(Principal::Kind::assumed_role)) {
    return std::nullopt;
  }
  contents.kind = static_cast<Principal::Kind>(kind);
  if (!read_limits(json, contents.limits) || !read_attributes(json, contents.attributes)) return std::nullopt;
  return contents;
}

std::string seal_session(const KeyRing& keys, const SessionContents& contents) {
  const std::string_view context = contents.limits ? bucket_seal_context : token_seal_context;
  return to_base64(as_bytes(keys.seal(as_bytes(encode_session(contents)), context)));
}

Result<SessionContents> open_session(const KeyRing& keys, std::string_view token) {
  if (token.size() > session_token_bytes_max) return fail(Errc::invalid_token, "auth: session token too long");
  const auto sealed = from_base64(token);
  if (!sealed) return fail(Errc::invalid_token, "auth: session token is not base64");
  auto plain = keys.unseal(*sealed, token_seal_context);
  const bool limited = !plain;
  if (limited) plain = keys.unseal(*sealed, bucket_seal_context);
  if (!plain) return fail(Errc::invalid_token, "auth: session token does not open");
  auto contents = decode_session(plain->text());
  if (!contents || contents->limits.has_value() != limited)
    return fail(Errc::invalid_token, "auth: session token's contents");
  return std::move(*contents);
}

}  // namespace verbena::auth
