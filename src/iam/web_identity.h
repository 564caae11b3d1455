// STS' AssumeRoleWithWebIdentity: a role for whoever has a token of an OpenID Connect provider that the role trusts.
#pragma once

#include <optional>

#include "iam/call.h"
#include "iam/strangers.h"

namespace verbena::iam {

struct WebIdentityCall {
  Call& call;
  sign_in::ProviderKeys& keys;
  bool last = false;  // the provider was asked for its keys a moment ago
  StrangerReply& reply;
  std::optional<sign_in::Refusal>& refusal;

  [[nodiscard]] std::unexpected<Error> refuse(sign_in::Refusal why) const {
    refusal = std::move(why);
    return fail(Errc::access_denied, "iam: sign-in");
  }
  [[nodiscard]] std::unexpected<Error> refuse(sign_in::Refusal::Kind kind, std::string message) const {
    return refuse(sign_in::Refusal{kind, std::move(message)});
  }
};

// An error with reply.wanted set is no answer.
Result<void> assume_role_with_web_identity(WebIdentityCall& web);

}  // namespace verbena::iam
