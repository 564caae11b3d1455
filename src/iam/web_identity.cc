#include "iam/web_identity.h"

#include <algorithm>

#include "iam/authorize.h"
#include "iam/sessions.h"
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

// Who says what of whom.
struct Word {
  Jwt token;
  RoleOfArn wanted;
  const auth::OpenIdProvider* provider = nullptr;  // lives in the role's account
  sign_in::Subject subject;
  auth::Attributes attributes{};
};

// What a role's trust policy may ask of it.
class WordFacts final : public auth::Facts {
 public:
  WordFacts(const Call& call, const Word& word, std::string provider_arn)
      : call_(call), word_(word), provider_arn_(std::move(provider_arn)) {}

  bool find(std::string_view key, auth::FactValues& values) const override {
    if (call_.find(key, values)) return true;
    const auth::Attributes& attributes = word_.attributes;
    constexpr std::string_view tag_prefix = "aws:requesttag/";
    if (key.starts_with(tag_prefix)) {
      const auto tag = attributes.tags.find(key.substr(tag_prefix.size()));
      if (tag != attributes.tags.end()) values.push_back(tag->second);
      return tag != attributes.tags.end();
    }
    if (key == "aws:tagkeys") {
      for (const auto& [name, value] : attributes.tags) values.push_back(name);
      return !values.empty();
    }
    if (key == "sts:transitivetagkeys") {
      values = attributes.transitive;
      return !values.empty();
    }
    if (key == "sts:sourceidentity") {
      if (!attributes.source_identity.empty()) values.push_back(attributes.source_identity);
      return !values.empty();
    }
    if (key == "aws:federatedprovider") {
      values.push_back(provider_arn_);
      return true;
    }
    return sign_in::find_claim(word_.token.claims, word_.provider->url, key, values);
  }

 private:
  const CallFacts call_;
  const Word& word_;
  const std::string provider_arn_;
};

// What can be known without the provider's keys, so that nobody makes the server ask for them with what is refused
// anyway.
Result<Word> read_word(WebIdentityCall& web) {
  const std::string_view text = web.call.get("WebIdentityToken");
  Word word;
  VB_ASSIGN(word.wanted, find_role(web.call));
  auto token = Jwt::parse(text);
  if (!token) return web.refuse(Why::invalid_token, not_a_token);
  word.token = std::move(*token);
  const auto issuer = sign_in::issuer_of(word.token.claims);
  if (!issuer) return web.refuse(Why::invalid_token, "Missing a required claim: iss");
  if (word.wanted.account != nullptr) {
    const auto& providers = word.wanted.account->open_id_providers;
    const auto found = providers.find(*issuer);
    if (found != providers.end()) word.provider = &found->second;
  }
  if (word.provider == nullptr) {
    return web.refuse(Why::invalid_token,
                      "No OpenIDConnect provider found in your account for https://" + shown(*issuer));
  }
  auto subject = sign_in::check_claims(word.token.claims, word.provider->client_ids, web.call.now_s());
  if (!subject) return web.refuse(std::move(subject.error()));
  word.subject = std::move(*subject);
  return word;
}

Result<void> verify_word(WebIdentityCall& web, const Word& word) {
  const sign_in::Issuer issuer{word.wanted.account->account->id, word.provider->url, provider_tag(*word.provider),
                               word.provider->thumbprints};
  const auto known = web.keys.find(issuer);
  const Verdict verdict = known.keys ? verify(*known.keys, word.token) : Verdict::unknown_key;
  // A key may have been changed under its name, or have none.
  if (!web.last && (verdict != Verdict::good || !known.fresh)) {
    web.reply.wanted = issuer;
    return fail(Errc::would_block, "iam: keys of a provider");
  }
  if (verdict == Verdict::good) return {};
  if (!known.keys) return web.refuse(Why::no_answer, no_key);
  if (verdict == Verdict::unknown_key) return web.refuse(Why::invalid_token, no_key);
  return web.refuse(Why::invalid_token, "The signature of the token is not its provider's");
}

// The role's trust policy must name the provider, and its conditions must hold for what the token says.
Result<void> authorize_word(WebIdentityCall& web, const Word& word) {
  auth::Principal provider;
  provider.kind = auth::Principal::Kind::federated;
  provider.account = word.wanted.account->account;
  provider.arn = provider_arn(*word.wanted.account, *word.provider);
  const WordFacts facts(web.call, word, provider.arn);
  const auto may = [&](std::string_view action) -> Result<void> {
    if (word.wanted.role != nullptr) {
      const std::string arn = role_arn(*word.wanted.account, *word.wanted.role);
      const auto effect = evaluate_resource(*word.wanted.role->trust.policy, {&provider, action, arn, &facts});
      if (!effect.denied && effect.allowed >= auth::Reach::principal) return {};
    }
    return web.refuse(Why::denied, "Not authorized to perform " + std::string(action));
  };
  VB_TRY(may("sts:AssumeRoleWithWebIdentity"));
  if (!word.attributes.tags.empty()) VB_TRY(may("sts:TagSession"));
  if (!word.attributes.source_identity.empty()) VB_TRY(may("sts:SetSourceIdentity"));
  return {};
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

Result<void> assume_role_with_web_identity(WebIdentityCall& web) {
  VB_ASSIGN(const std::string name, session_name(web.call));
  VB_ASSIGN(Word word, read_word(web));
  VB_TRY(verify_word(web, word));
  auto attributes = sign_in::read_attributes(word.token.claims, word.provider->url, word.subject);
  if (!attributes) return web.refuse(std::move(attributes.error()));
  word.attributes = std::move(*attributes);
  VB_TRY(authorize_word(web, word));
  VB_ASSIGN(const int64_t duration, session_duration(web.call, word.wanted.role->session_max_s));
  VB_ASSIGN(auth::SessionContents contents, role_contents(web.call, word.wanted, name, duration));
  contents.attributes = word.attributes;
  // The session ends with the provider, as others do with the key that they go back to.
  auth::AccessKey by;
  by.parent_key = provider_arn(*word.wanted.account, *word.provider);
  by.parent_tag = provider_tag(*word.provider);
  VB_ASSIGN(const auth::Credentials made, make_credentials(web.call, contents, by));
  write_answer(web.call.xml, word, made, contents);
  web.reply.who = {std::make_shared<const auth::Principal>(role_session(*word.wanted.account, *word.wanted.role, name)),
                   made.access_key};
  return {};
}

}  // namespace verbena::iam
