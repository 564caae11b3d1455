// What a verified token says, checked and put into the words of policies. Sources: OpenID Connect Core 1.0 sections 2
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

// Why a sign-in is refused, in the words that its caller is told.
struct Refusal {
  enum class Kind : uint8_t { invalid_token, expired_token, rejected_claim, no_answer, denied, busy };
  Kind kind = Kind::denied;
  std::string message;
};

inline constexpr int64_t clock_leeway_s = 30;

// Whom the token is from, without "https://"; nullopt when it does not say so.
std::optional<std::string> issuer_of(const nlohmann::json& claims);

struct Subject {
  std::string name;      // sub
  std::string audience;  // which of the provider's client ids it was made for: its azp, where it has one
};
// Audience, time and subject. Costs nothing but a look, so it comes before the signature.
std::expected<Subject, Refusal> check_claims(const nlohmann::json& claims, std::span<const std::string> client_ids,
                                             int64_t now_s);

// Tags, source identity, and the claims that policies of the session may ask for. `issuer` as in issuer_of().
std::expected<auth::Attributes, Refusal> read_attributes(const nlohmann::json& claims, std::string_view issuer,
                                                         const Subject& subject);

// The value of the condition key "ISSUER:claim", for trust policies: any claim that is a text, a number, a boolean or
// a list of texts. Of several audiences the subject's is the one that counts: the others are nobody's client here.
// `key` as auth::Facts has it.
bool find_claim(const nlohmann::json& claims, std::string_view issuer, const Subject& subject, std::string_view key,
                auth::FactValues& values);

// Whether the issuer's name can stand before a claim's in a condition key. "aws" could not: what its tokens say would
// pass for what is known of a request.
bool may_name_keys(std::string_view issuer);

}  // namespace verbena::sign_in
