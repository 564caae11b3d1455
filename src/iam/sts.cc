// STS: temporary credentials, and the caller's identity.
#include "auth/attributes.h"
#include "iam/actions.h"
#include "iam/authorize.h"
#include "iam/sessions.h"

namespace verbena::iam {
namespace {

using auth::Principal;
using auth::SessionContents;

constexpr int64_t session_min_s = 900;
constexpr int64_t user_session_max_s = 129'600, user_session_default_s = 43'200;
constexpr int64_t root_session_max_s = 3'600;
constexpr int64_t chained_session_max_s = 3'600;  // a role that a role's session assumes

std::unexpected<Error> may_not(const Call& call, std::string_view action) {
  return call.refuse(Errc::access_denied, "User: " + call.principal().arn + " is not authorized to perform: " +
                                              std::string(action) + " on resource: " + shown(call.get("RoleArn")));
}

// The trust policy must admit the caller; if it admits the caller's account as a whole, or the caller is of another
// account, the caller's own policies must allow it, too.
Result<void> authorize_role(const Call& call, const RoleOfArn& wanted, std::string_view action) {
  const std::string arn = role_arn(*wanted.account, *wanted.role);
  const auth::Account& owner = *wanted.account->account;
  const CallFacts facts(call, owner.id);
  const auth::Question question{&call.principal(), action, arn, &facts};
  const auto trusted = evaluate_resource(*wanted.role->trust.policy, question);
  VB_TRY(authorize(call, action, arn, owner, wanted.role->trust.policy.get()));
  // The caller's own policies alone do not admit it to a role, nor does being the account's root.
  if (!trusted.denied && trusted.allowed != auth::Reach::none) return {};
  return may_not(call, action);
}

// The identity provider's claims about the first caller of the chain are passed on to the next role.
auth::Attributes inherited(const Call& call) {
  auth::Attributes out;
  const auth::Attributes* const own = call.principal().attributes.get();
  if (call.principal().kind != Principal::Kind::assumed_role || own == nullptr) return out;
  out.transitive = own->transitive;
  for (const std::string& key : own->transitive) {
    const auto tag = own->tags.find(key);
    if (tag != own->tags.end()) out.tags.insert(*tag);
  }
  out.source_identity = own->source_identity;
  return out;
}

// The role must admit all of the attributes.
Result<void> authorize_session(Call& call, const RoleOfArn& wanted, const auth::Attributes& attributes) {
  call.passed_on = &attributes;
  call.item_tags = &wanted.role->tags;
  VB_TRY(authorize_role(call, wanted, "sts:AssumeRole"));
  if (!attributes.transitive.empty()) VB_TRY(authorize_role(call, wanted, "sts:TagSession"));
  if (!attributes.source_identity.empty()) VB_TRY(authorize_role(call, wanted, "sts:SetSourceIdentity"));
  return {};
}

}  // namespace

Result<void> assume_role(Call& call) {
  VB_ASSIGN(const std::string name, session_name(call));
  VB_ASSIGN(const RoleOfArn wanted, find_role(call));
  // A missing role looks like one that may not be assumed.
  if (wanted.role == nullptr) return may_not(call, "sts:AssumeRole");
  const auth::Attributes attributes = inherited(call);
  VB_TRY(authorize_session(call, wanted, attributes));
  const bool chained = call.principal().kind == Principal::Kind::assumed_role;
  VB_ASSIGN(const int64_t duration,
            session_duration(call, chained ? chained_session_max_s : wanted.role->session_max_s));
  VB_ASSIGN(SessionContents contents, role_contents(call, wanted, name, duration));
  contents.attributes = attributes;
  VB_ASSIGN(const auth::Credentials made, make_credentials(call, contents, call.key));
  call.assumed = std::make_shared<const Principal>(role_session(*wanted.account, *wanted.role, name));
  write_credentials(call.xml, made, contents.expires_s);
  write_role_user(call.xml, wanted, name);
  if (!contents.attributes.source_identity.empty()) {
    call.xml.element("SourceIdentity", contents.attributes.source_identity);
  }
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
  duration = std::min(duration, longest);  // a root's is shortened, as in AWS
  SessionContents contents;
  contents.kind = caller.kind;
  contents.account_id = call.account->account->id;
  contents.subject = caller.name;
  contents.subject_id = root ? "" : caller.user_id;
  contents.expires_s = call.now_s() + duration;
  VB_ASSIGN(const auth::Credentials made, make_credentials(call, contents, call.key));
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
