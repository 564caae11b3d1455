// The claims of a verified token, checked and translated into policy terms. Sources: OpenID Connect Core 1.0 sections 2
// and 3.1.3.7; AWS IAM User Guide, "Available keys for AWS OIDC federation" and "Pass session tags in AWS STS".
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "auth/attributes.h"
#include "auth/policy.h"

namespace verbena::sign_in {

// The reason for refusing a sign-in, in the words sent to the caller.
struct Refusal {
  enum class Kind : uint8_t { invalid_token, expired_token, rejected_claim, no_answer, denied, busy };
  Kind kind = Kind::denied;
  std::string message;
};

inline constexpr int64_t clock_leeway_s = 30;

// The token's issuer, without "https://"; nullopt when it names none.
std::optional<std::string> issuer_of(const nlohmann::json& claims);

struct Subject {
  std::string name;      // sub
  std::string audience;  // the provider's client id that it was made for: its azp, if present
};
// Checks audience, time and subject. Cheap, so it comes before the signature.
std::expected<Subject, Refusal> check_claims(const nlohmann::json& claims, std::span<const std::string> client_ids,
                                             int64_t now_s);

// Tags, source identity, and the claims usable in policies of the session. `issuer` as in issuer_of().
std::expected<auth::Attributes, Refusal> read_attributes(const nlohmann::json& claims, std::string_view issuer,
                                                         const Subject& subject);

// The value of the condition key "ISSUER:claim", for trust policies: any claim that is a text, a number, a boolean or a
// list of texts. Of several audiences only the subject's counts: the others are not clients here. `key` as in
// auth::Facts.
bool find_claim(const nlohmann::json& claims, std::string_view issuer, const Subject& subject, std::string_view key,
                auth::FactValues& values);

// Whether the issuer's name may precede a claim's in a condition key. "aws" may not: its claims would pass for facts of
// the request.
bool may_name_keys(std::string_view issuer);

}  // namespace verbena::sign_in
