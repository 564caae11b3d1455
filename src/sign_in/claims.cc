#include "sign_in/claims.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/date.h"
#include "base/log.h"
#include "base/text.h"

namespace verbena::sign_in {
namespace {

using Json = nlohmann::json;
using Why = Refusal::Kind;

constexpr std::string_view scheme = "https://";
constexpr size_t subject_bytes_max = 255, claim_values_max = 256;
constexpr size_t tags_max = 50, tag_key_bytes_max = 128, tag_value_bytes_max = 256, source_bytes_max = 64;
constexpr double latest_s = 1e11;  // a larger number is not a time
constexpr const char* tags_claim = "https://aws.amazon.com/tags";
constexpr const char* source_claim = "https://aws.amazon.com/source_identity";

std::unexpected<Refusal> refuse(Why kind, std::string message) {
  return std::unexpected(Refusal{kind, std::move(message)});
}

std::unexpected<Refusal> missing_claim(std::string_view name) {
  return refuse(Why::invalid_token, fmt::format("Missing a required claim: {}", name));
}

const std::string* text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

// RFC 7519's NumericDate: seconds, perhaps with a fraction. nullopt: missing, or not a time.
std::optional<double> time_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  return seconds >= 0 && seconds <= latest_s ? std::optional(seconds) : std::nullopt;
}

std::vector<std::string> audiences_of(const Json& claims) {
  const auto found = claims.find("aud");
  std::vector<std::string> out;
  if (found == claims.end()) return out;
  if (found->is_string()) out.push_back(found->get<std::string>());
  if (!found->is_array() || found->size() > claim_values_max) return out;
  for (const Json& one : *found) {
    if (!one.is_string()) return {};
    out.push_back(one.get<std::string>());
  }
  return out;
}

bool is_one_of(std::span<const std::string> list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

std::expected<std::string, Refusal> check_audience(const Json& claims, std::span<const std::string> client_ids) {
  const auto audiences = audiences_of(claims);
  if (audiences.empty()) return missing_claim("aud");
  const auto found = std::ranges::find_if(audiences, [&](const auto& one) { return is_one_of(client_ids, one); });
  if (found == audiences.end()) return refuse(Why::invalid_token, "Incorrect token audience");
  // A token for several audiences could be passed on by one of them: then it must name its authorized party itself.
  const bool says_for_whom = claims.contains("azp");
  const std::string* const party = text_in(claims, "azp");
  if (says_for_whom ? party == nullptr || !is_one_of(client_ids, *party) : audiences.size() > 1) {
    return refuse(Why::invalid_token,
                  "Incorrect token audience: a token for several audiences needs an azp claim "
                  "that is one of the provider's client ids");
  }
  return party != nullptr ? *party : *found;
}

std::expected<void, Refusal> check_times(const Json& claims, int64_t now_s) {
  const auto expires = time_in(claims, "exp"), issued = time_in(claims, "iat"), begins = time_in(claims, "nbf");
  if (!expires) return missing_claim("exp");
  if (!issued) return missing_claim("iat");
  if (claims.contains("nbf") && !begins) return refuse(Why::invalid_token, "The claim nbf is no time");
  const auto now = static_cast<double>(now_s);
  const auto leeway = static_cast<double>(clock_leeway_s);
  if (now >= *expires + leeway) {
    return refuse(Why::expired_token,
                  fmt::format("Token expired: current date/time {} must be before the expiration date/time {}",
                              format_iso8601_seconds(now_s), format_iso8601_seconds(static_cast<int64_t>(*expires))));
  }
  if (now + leeway < std::max(*issued, begins.value_or(0))) {
    return refuse(Why::invalid_token, "The token is not valid yet: its iat or nbf is in the future");
  }
  return {};
}

// Condition keys preserve the case of what follows a slash, and of nothing else (auth/policy_pattern.h normal_key).
std::string key_of(std::string_view issuer, std::string_view claim) {
  const std::string whole = std::string(issuer).append(":").append(claim);
  const size_t slash = std::min(whole.find('/'), whole.size());
  return lower(std::string_view(whole).substr(0, slash)) + whole.substr(slash);
}

bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::unexpected<Refusal> bad_tags() {
  return refuse(Why::rejected_claim,
                "The claim https://aws.amazon.com/tags must have principal_tags, a list of one text for each key (at "
                "most 50 keys of 128 bytes, values of 256, none that begins with aws:), and transitive_tag_keys, a "
                "list of some of these keys");
}

// A text, or a list of one text.
const std::string* only_text(const Json& value) {
  if (value.is_string()) return value.get_ptr<const std::string*>();
  if (value.is_array() && value.size() == 1 && value[0].is_string()) return value[0].get_ptr<const std::string*>();
  return nullptr;
}

bool add_tag(const std::string& key, const Json& value, auth::Attributes& out) {
  const std::string* const text = only_text(value);
  if (text == nullptr || key.empty() || key.size() > tag_key_bytes_max || text->size() > tag_value_bytes_max ||
      !is_plain(key) || !is_plain(*text) || lower(key).starts_with("aws:") || out.tags.size() >= tags_max) {
    return false;
  }
  return out.tags.emplace(key, *text).second;
}

bool add_transitive(const Json& keys, auth::Attributes& out) {
  if (!keys.is_array() || keys.size() > tags_max) return false;
  for (const Json& key : keys) {
    if (!key.is_string()) return false;
    out.transitive.push_back(key.get<std::string>());
  }
  return true;
}

// One object, or, as some providers require, a claim for each member of it.
bool read_tags(const Json& claims, auth::Attributes& out) {
  const std::string prefix = std::string(tags_claim) + "/principal_tags/";
  const std::string flat_keys = std::string(tags_claim) + "/transitive_tag_keys";
  for (const auto& [name, value] : claims.items()) {
    if (name == tags_claim) {
      if (!value.is_object()) return false;
      for (const auto& [part, of_part] : value.items()) {
        if (part == "transitive_tag_keys") {
          if (!add_transitive(of_part, out)) return false;
        } else if (part == "principal_tags" && of_part.is_object()) {
          for (const auto& [key, tag] : of_part.items()) {
            if (!add_tag(key, tag, out)) return false;
          }
        } else {
          return false;
        }
      }
    } else if (name == flat_keys) {
      if (!add_transitive(value, out)) return false;
    } else if (name.starts_with(prefix)) {
      if (!add_tag(name.substr(prefix.size()), value, out)) return false;
    }
  }
  return std::ranges::all_of(out.transitive, [&](const auto& key) { return out.tags.contains(key); });
}

bool is_source_identity(std::string_view text) {
  const auto named = [](char c) {
    const char low = lower(c);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || std::string_view("_+=,.@-").contains(c);
  };
  return text.size() >= 2 && text.size() <= source_bytes_max && std::ranges::all_of(text, named) &&
         !lower(text).starts_with("aws:");
}

bool values_of(const Json& claim, auth::FactValues& values) {
  if (claim.is_string()) {
    values.push_back(claim.get<std::string>());
  } else if (claim.is_boolean() || claim.is_number_integer()) {
    values.push_back(claim.dump());
  } else if (claim.is_array() && claim.size() <= claim_values_max &&
             std::ranges::all_of(claim, [](const Json& one) { return one.is_string(); })) {
    for (const Json& one : claim) values.push_back(one.get<std::string>());
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> issuer_of(const Json& claims) {
  const std::string* const issuer = text_in(claims, "iss");
  if (issuer == nullptr || !issuer->starts_with(scheme)) return std::nullopt;
  return issuer->substr(scheme.size());
}

std::expected<Subject, Refusal> check_claims(const Json& claims, std::span<const std::string> client_ids,
                                             int64_t now_s) {
  const std::string* const subject = text_in(claims, "sub");
  if (subject == nullptr || subject->empty()) return missing_claim("sub");
  if (subject->size() > subject_bytes_max || !is_plain(*subject)) {
    return refuse(Why::invalid_token, "The claim sub must have at most 255 bytes, without control characters");
  }
  auto audience = check_audience(claims, client_ids);
  if (!audience) return std::unexpected(std::move(audience.error()));
  if (auto timely = check_times(claims, now_s); !timely) return std::unexpected(std::move(timely.error()));
  return Subject{*subject, std::move(*audience)};
}

std::expected<auth::Attributes, Refusal> read_attributes(const Json& claims, std::string_view issuer,
                                                         const Subject& subject) {
  auth::Attributes out;
  if (!read_tags(claims, out)) return bad_tags();
  if (claims.contains(source_claim)) {
    const std::string* const source = text_in(claims, source_claim);
    if (source == nullptr || !is_source_identity(*source)) {
      return refuse(Why::rejected_claim,
                    "The claim https://aws.amazon.com/source_identity must have 2 to 64 "
                    "characters of [A-Za-z0-9_+=,.@-]");
    }
    out.source_identity = *source;
  }
  if (!may_name_keys(issuer)) return out;
  out.claims[key_of(issuer, "sub")] = {subject.name};
  out.claims[key_of(issuer, "aud")] = {subject.audience};
  auth::FactValues methods;
  if (const auto found = claims.find("amr"); found != claims.end() && values_of(*found, methods)) {
    out.claims[key_of(issuer, "amr")] = std::move(methods);
  }
  return out;
}

bool find_claim(const Json& claims, std::string_view issuer, const Subject& subject, std::string_view key,
                auth::FactValues& values) {
  if (!may_name_keys(issuer) || key.find(':') == std::string_view::npos) return false;
  const std::string prefix = key_of(issuer, "");
  if (!key.starts_with(prefix)) return false;
  const std::string_view wanted = key.substr(prefix.size());
  if (wanted == "aud") {
    values.push_back(subject.audience);
    return true;
  }
  if (const auto found = claims.find(wanted); found != claims.end()) return values_of(*found, values);
  // Without a slash the policy's key is in lower case: find the only claim that equals it apart from case.
  const Json* only = nullptr;
  for (const auto& [name, value] : claims.items()) {
    if (issuer.find('/') != std::string_view::npos || lower(name) != wanted) continue;
    if (only != nullptr) return false;
    only = &value;
  }
  return only != nullptr && values_of(*only, values);
}

bool may_name_keys(std::string_view issuer) { return issuer.find_first_of("./:") != std::string_view::npos; }

}  // namespace verbena::sign_in
