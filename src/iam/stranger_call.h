// A call that nobody signed, while it is served, and what all of them have in common: somebody else vouches for the
// caller, and a role trusts that one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "auth/attributes.h"
#include "iam/call.h"
#include "iam/sessions.h"
#include "iam/strangers.h"

namespace verbena::iam {

struct StrangerCall {
  Call& call;
  const StrangerTools& tools;
  const StrangerRequest& request;
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

// Who says what of whom.
struct Vouched {
  RoleOfArn wanted;
  std::string by;      // ARN of who vouches, in the role's account
  std::string by_tag;  // tells it from another one of that name
  auth::Attributes attributes{};
  // Condition keys besides, for the role's trust policy.
  std::function<bool(std::string_view key, auth::FactValues& values)> claim{};
};

// The role's trust policy must name who vouches, and its conditions must hold for what is said. `action`: of STS.
Result<void> authorize_vouched(const StrangerCall& stranger, const Vouched& vouched, std::string_view action);

// The role's credentials, which end with who vouches, as others do with the key that they go back to; and who it is,
// for the log.
Result<auth::Credentials> make_vouched_session(const StrangerCall& stranger, const Vouched& vouched,
                                               auth::SessionContents& contents);

// The ARN of what the server's configuration has, in the role's account: "ldap/directory".
std::string voucher_arn(const RoleOfArn& wanted, std::string_view kind, std::string_view name);

// Errors with reply.asks() are no answers.
Result<void> assume_role_with_web_identity(StrangerCall& stranger);
Result<void> assume_role_with_ldap_identity(StrangerCall& stranger);
Result<void> assume_role_with_certificate(StrangerCall& stranger);

}  // namespace verbena::iam
