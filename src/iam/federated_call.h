// A federated call in progress, and the common parts of all of them: another party authenticates the caller, and a role
// trusts that party.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "auth/attributes.h"
#include "iam/call.h"
#include "iam/federation.h"
#include "iam/sessions.h"

namespace verbena::iam {

struct FederatedCall {
  Call& call;
  const FederatedTools& tools;
  const FederatedRequest& request;
  FederatedReply& reply;
  std::optional<sign_in::Refusal>& refusal;

  [[nodiscard]] std::unexpected<Error> refuse(sign_in::Refusal why) const {
    refusal = std::move(why);
    return fail(Errc::access_denied, "iam: sign-in");
  }
  [[nodiscard]] std::unexpected<Error> refuse(sign_in::Refusal::Kind kind, std::string message) const {
    return refuse(sign_in::Refusal{kind, std::move(message)});
  }
};

// An authenticated identity and its authenticator.
struct Vouched {
  RoleOfArn wanted;
  std::string by;      // ARN of the authenticator, in the role's account
  std::string by_tag;  // differs for a later one of that name
  auth::Attributes attributes{};
  // Further condition keys for the role's trust policy.
  std::function<bool(std::string_view key, auth::FactValues& values)> claim{};
};

// The role's trust policy must name the authenticator, and its conditions must hold for the claims. `action`: of STS.
Result<void> authorize_vouched(const FederatedCall& federated, const Vouched& vouched, std::string_view action);

// The role's credentials, which end with the authenticator, as others end with their long-term key; also sets the
// identity for the log.
Result<auth::Credentials> make_vouched_session(const FederatedCall& federated, const Vouched& vouched,
                                               auth::SessionContents& contents);

// The ARN of an authenticator from the server's configuration, in the role's account: "ldap/directory".
std::string voucher_arn(const RoleOfArn& wanted, std::string_view kind, std::string_view name);

// An error with reply.asks() is not final.
Result<void> assume_role_with_web_identity(FederatedCall& federated);
Result<void> assume_role_with_ldap_identity(FederatedCall& federated);
Result<void> assume_role_with_certificate(FederatedCall& federated);

}  // namespace verbena::iam
