// STS' AssumeRoleWithWebIdentity: a role for callers with a token of an OpenID Connect provider that the role trusts.
#include "iam/federated_call.h"
#include "sign_in/jwk.h"

namespace verbena::iam {
namespace {

using sign_in::Jwt;
using sign_in::Verdict;
using Why = sign_in::Refusal::Kind;

constexpr const char* not_a_token =
    "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)";
constexpr const char* no_key =
    "Couldn't retrieve verification key from your identity provider, please reference AssumeRoleWithWebIdentity "
    "documentation for requirements";

struct Word {
  Jwt token;
  RoleOfArn wanted;
  const auth::OpenIdProvider* provider = nullptr;  // lives in the role's account
  sign_in::Subject subject;
  auth::Attributes attributes{};
};

// Checks that need no keys of the provider, so that a token that is refused anyway causes no request to it.
Result<Word> read_word(FederatedCall& federated) {
  const std::string_view text = federated.call.get("WebIdentityToken");
  Word word;
  VB_ASSIGN(word.wanted, find_role(federated.call));
  auto token = Jwt::parse(text);
  if (!token) return federated.refuse(Why::invalid_token, not_a_token);
  word.token = std::move(*token);
  const auto issuer = sign_in::issuer_of(word.token.claims);
  if (!issuer) return federated.refuse(Why::invalid_token, "Missing a required claim: iss");
  if (word.wanted.account != nullptr) {
    const auto& providers = word.wanted.account->open_id_providers;
    const auto found = providers.find(*issuer);
    if (found != providers.end()) word.provider = &found->second;
  }
  if (word.provider == nullptr) {
    return federated.refuse(Why::invalid_token,
                            "No OpenIDConnect provider found in your account for https://" + shown(*issuer));
  }
  auto subject = sign_in::check_claims(word.token.claims, word.provider->client_ids, federated.call.now_s());
  if (!subject) return federated.refuse(std::move(subject.error()));
  word.subject = std::move(*subject);
  return word;
}

Result<void> verify_word(FederatedCall& federated, const Word& word) {
  const sign_in::Issuer issuer{word.wanted.account->account->id, word.provider->url, provider_tag(*word.provider),
                               word.provider->thumbprints};
  const auto known = federated.tools.keys->find(issuer);
  const Verdict verdict = known.keys ? verify(*known.keys, word.token) : Verdict::unknown_key;
  // A key may have changed under the same id, or have none.
  if (!federated.request.last && (verdict != Verdict::good || !known.fresh)) {
    federated.reply.wanted = issuer;
    return fail(Errc::would_block, "iam: keys of a provider");
  }
  if (verdict == Verdict::good) return {};
  if (!known.keys) return federated.refuse(Why::no_answer, no_key);
  if (verdict == Verdict::unknown_key) return federated.refuse(Why::invalid_token, no_key);
  return federated.refuse(Why::invalid_token, "The signature of the token is not its provider's");
}

void write_answer(s3::XmlWriter& xml, const Word& word, const auth::Credentials& made,
                  const auth::SessionContents& contents) {
  xml.element("SubjectFromWebIdentityToken", word.subject.name);
  xml.element("Audience", word.subject.audience);
  write_role_user(xml, word.wanted, contents.session_name);
  write_credentials(xml, made, contents.expires_s);
  xml.element("Provider", "https://" + word.provider->url);
  if (!word.attributes.source_identity.empty()) xml.element("SourceIdentity", word.attributes.source_identity);
}

}  // namespace

Result<void> assume_role_with_web_identity(FederatedCall& federated) {
  VB_ASSIGN(const std::string name, session_name(federated.call));
  VB_ASSIGN(Word word, read_word(federated));
  VB_TRY(verify_word(federated, word));
  auto attributes = sign_in::read_attributes(word.token.claims, word.provider->url, word.subject);
  if (!attributes) return federated.refuse(std::move(attributes.error()));
  word.attributes = std::move(*attributes);
  const auto claim = [&word](std::string_view key, auth::FactValues& values) {
    return sign_in::find_claim(word.token.claims, word.provider->url, word.subject, key, values);
  };
  const Vouched vouched{.wanted = word.wanted,
                        .by = provider_arn(*word.wanted.account, *word.provider),
                        .by_tag = provider_tag(*word.provider),
                        .attributes = word.attributes,
                        .claim = claim};
  VB_TRY(authorize_vouched(federated, vouched, "sts:AssumeRoleWithWebIdentity"));
  VB_ASSIGN(const int64_t duration, session_duration(federated.call, word.wanted.role->session_max_s));
  VB_ASSIGN(auth::SessionContents contents, role_contents(federated.call, word.wanted, name, duration));
  VB_ASSIGN(const auth::Credentials made, make_vouched_session(federated, vouched, contents));
  write_answer(federated.call.xml, word, made, contents);
  return {};
}

}  // namespace verbena::iam
