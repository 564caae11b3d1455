// STS: temporary credentials, and who one is.
#include "iam/actions.h"
#include "iam/authorize.h"
#include "iam/subjects.h"

namespace verbena::iam {
namespace {

using auth::Principal;
using auth::SessionContents;

constexpr int64_t session_min_s = 900;
constexpr int64_t user_session_max_s = 129'600, user_session_default_s = 43'200;
constexpr int64_t root_session_max_s = 3'600;
constexpr int64_t chained_session_max_s = 3'600;  // a role that a role's session assumes

void write_credentials(s3::XmlWriter& xml, const auth::Credentials& made, int64_t expires_s) {
  xml.open("Credentials");
  xml.element("AccessKeyId", made.access_key);
  xml.element("SecretAccessKey", made.secret_key);
  xml.element("SessionToken", made.session_token);
  write_date(xml, "Expiration", expires_s);
  xml.close();
}

struct RoleOfArn {
  auth::AccountEntryPtr account;
  const auth::Role* role = nullptr;
};

// A role that is not there looks like one that may not be assumed.
Result<RoleOfArn> find_role(const Call& call) {
  const std::string_view arn = call.get("RoleArn");
  constexpr std::string_view prefix = "arn:aws:iam::";
  if (!arn.starts_with(prefix) || arn.size() < prefix.size() + 12 || arn.size() > 2048) {
    return call.refuse(Errc::validation_error, "RoleArn is not the ARN of a role.");
  }
  RoleOfArn out;
  out.account = call.store.account(arn.substr(prefix.size(), 12));
  if (out.account != nullptr) {
    const auto found = out.account->roles.find(arn.substr(arn.rfind('/') + 1));
    if (found != out.account->roles.end() && role_arn(*out.account, found->second) == arn) out.role = &found->second;
  }
  if (out.role == nullptr) {
    return call.refuse(Errc::access_denied,
                       "User: " + call.principal().arn +
                           " is not authorized to perform: sts:AssumeRole on resource: " + std::string(arn));
  }
  return out;
}

// The trust policy must let the caller in; where it lets in the caller's account as a whole, or the caller is of
// another account, the caller's own policies must agree.
Result<void> authorize_role(const Call& call, const RoleOfArn& wanted) {
  const std::string arn = role_arn(*wanted.account, *wanted.role);
  const CallFacts facts(call);
  const auth::Question question{&call.principal(), "sts:AssumeRole", arn, &facts};
  const auto trusted = evaluate_resource(*wanted.role->trust.policy, question);
  const auth::Resource side{.policy = wanted.role->trust.policy.get(), .owner = wanted.account->account->canonical_id};
  VB_TRY(authorize(call, "sts:AssumeRole", arn, side));
  // By itself a policy of the caller's gets nobody into a role, nor does being the account's root.
  if (!trusted.denied && trusted.allowed != auth::Reach::none) return {};
  return call.refuse(Errc::access_denied, "User: " + call.principal().arn +
                                              " is not authorized to perform: sts:AssumeRole on resource: " + arn);
}

Result<void> add_session_policies(const Call& call, const RoleOfArn& wanted, SessionContents& contents) {
  if (call.parameters.get("Policy")) {
    VB_ASSIGN(const auto document, call.document("Policy", auth::PolicyKind::identity, auth::session_policy_bytes_max));
    contents.policy = document.text;
  }
  VB_ASSIGN(contents.policy_arns, call.parameters.members("PolicyArns", "arn", auth::session_policy_arns_max));
  for (const std::string& arn : contents.policy_arns) {
    if (find_policy(*wanted.account, arn) == nullptr) {
      return call.refuse(Errc::validation_error, "Policy " + arn + " does not exist.");
    }
  }
  return {};
}

Result<void> finish(Call& call, SessionContents& contents, auth::Credentials& made) {
  made = call.store.make_session(contents, call.key, call.now_s());
  if (made.session_token.size() > auth::session_token_bytes_max) {
    return call.refuse(Errc::packed_policy_too_large, "The session policy is too large.");
  }
  return {};
}

}  // namespace

Result<void> assume_role(Call& call) {
  const std::string_view session = call.get("RoleSessionName");
  if (session.size() < 2 || !is_name(session, 64)) {
    return call.refuse(Errc::validation_error, "RoleSessionName must have 2 to 64 characters of [A-Za-z0-9_+=,.@-].");
  }
  VB_ASSIGN(const RoleOfArn wanted, find_role(call));
  VB_TRY(authorize_role(call, wanted));
  const bool chained = call.principal().kind == Principal::Kind::assumed_role;
  const int64_t longest = chained ? chained_session_max_s : wanted.role->session_max_s;
  VB_ASSIGN(const int64_t duration,
            call.number("DurationSeconds", session_min_s, longest, std::min<int64_t>(3'600, longest)));
  SessionContents contents;
  contents.kind = Principal::Kind::assumed_role;
  contents.account_id = wanted.account->account->id;
  contents.subject = wanted.role->name;
  contents.subject_id = wanted.role->id;
  contents.session_name = session;
  contents.expires_s = call.now_s() + duration;
  VB_TRY(add_session_policies(call, wanted, contents));
  auth::Credentials made;
  VB_TRY(finish(call, contents, made));
  write_credentials(call.xml, made, contents.expires_s);
  const Principal shown = role_session(*wanted.account, *wanted.role, session);
  call.xml.open("AssumedRoleUser");
  call.xml.element("AssumedRoleId", shown.user_id);
  call.xml.element("Arn", shown.arn);
  call.xml.close();
  return {};
}

Result<void> get_session_token(Call& call) {
  const Principal& caller = call.principal();
  if (call.key.expires_s != 0) {
    return call.refuse(Errc::access_denied, "Cannot call GetSessionToken with session credentials");
  }
  const bool root = caller.kind == Principal::Kind::account_root;
  const int64_t longest = root ? root_session_max_s : user_session_max_s;
  VB_ASSIGN(int64_t duration, call.number("DurationSeconds", session_min_s, user_session_max_s,
                                          std::min(user_session_default_s, longest)));
  duration = std::min(duration, longest);  // a root's is cut short, as AWS does
  SessionContents contents;
  contents.kind = caller.kind;
  contents.account_id = call.account->account->id;
  contents.subject = caller.name;
  contents.subject_id = root ? "" : caller.user_id;
  contents.expires_s = call.now_s() + duration;
  auth::Credentials made;
  VB_TRY(finish(call, contents, made));
  write_credentials(call.xml, made, contents.expires_s);
  return {};
}

Result<void> get_caller_identity(Call& call) {
  call.xml.element("Arn", call.principal().arn);
  call.xml.element("UserId", call.principal().user_id);
  call.xml.element("Account", call.principal().account->id);
  return {};
}

}  // namespace verbena::iam
