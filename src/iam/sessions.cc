#include "iam/sessions.h"

#include <algorithm>

namespace verbena::iam {
namespace {

constexpr int64_t role_session_min_s = 900, role_session_default_s = 3'600;
constexpr size_t session_name_min = 2, session_name_max = 64, account_digits = 12, arn_bytes_max = 2'048;

}  // namespace

Result<RoleOfArn> find_role(const Call& call) { return find_role(call, call.get("RoleArn")); }

Result<RoleOfArn> find_role(const Call& call, std::string_view arn) {
  constexpr std::string_view prefix = "arn:aws:iam::";
  if (!arn.starts_with(prefix) || arn.size() < prefix.size() + account_digits || arn.size() > arn_bytes_max) {
    return call.refuse(Errc::validation_error, "RoleArn is not the ARN of a role.");
  }
  RoleOfArn out;
  out.account = call.store.account(arn.substr(prefix.size(), account_digits));
  if (out.account == nullptr) return out;
  const auto found = out.account->roles.find(arn.substr(arn.rfind('/') + 1));
  if (found != out.account->roles.end() && role_arn(*out.account, found->second) == arn) out.role = &found->second;
  return out;
}

Result<std::string> session_name(const Call& call) {
  const std::string_view name = call.get("RoleSessionName");
  if (name.size() >= session_name_min && is_name(name, session_name_max)) return std::string(name);
  return call.refuse(Errc::validation_error, "RoleSessionName must have 2 to 64 characters of [A-Za-z0-9_+=,.@-].");
}

Result<int64_t> session_duration(const Call& call, int64_t longest) {
  return call.number("DurationSeconds", role_session_min_s, longest, std::min(role_session_default_s, longest));
}

Result<auth::SessionContents> role_contents(const Call& call, const RoleOfArn& wanted, const std::string& name,
                                            int64_t duration_s) {
  auth::SessionContents contents;
  contents.kind = auth::Principal::Kind::assumed_role;
  contents.account_id = wanted.account->account->id;
  contents.subject = wanted.role->name;
  contents.subject_id = wanted.role->id;
  contents.session_name = name;
  contents.expires_s = call.now_s() + duration_s;
  if (call.parameters.get("Policy")) {
    VB_ASSIGN(const auto document, call.document("Policy", auth::PolicyKind::identity, auth::session_policy_bytes_max));
    contents.policy = document.text;
  }
  VB_ASSIGN(contents.policy_arns, call.parameters.members("PolicyArns", "arn", auth::session_policy_arns_max));
  for (const std::string& arn : contents.policy_arns) {
    if (find_policy(*wanted.account, arn) == nullptr) {
      return call.refuse(Errc::validation_error, "Policy " + shown(arn) + " does not exist.");
    }
  }
  return contents;
}

Result<auth::Credentials> make_credentials(const Call& call, auth::SessionContents& contents,
                                           const auth::AccessKey& by) {
  auth::Credentials made = call.store.make_session(contents, by, call.now_s());
  if (made.session_token.size() <= auth::session_token_bytes_max) return made;
  return call.refuse(Errc::packed_policy_too_large, "The session policy, with the session's tags, is too large.");
}

void write_credentials(s3::XmlWriter& xml, const auth::Credentials& made, int64_t expires_s) {
  xml.open("Credentials");
  xml.element("AccessKeyId", made.access_key);
  xml.element("SecretAccessKey", made.secret_key);
  xml.element("SessionToken", made.session_token);
  write_date(xml, "Expiration", expires_s);
  xml.close();
}

void write_role_user(s3::XmlWriter& xml, const RoleOfArn& wanted, std::string_view name) {
  const auth::Principal shown = role_session(*wanted.account, *wanted.role, name);
  xml.open("AssumedRoleUser");
  xml.element("AssumedRoleId", shown.user_id);
  xml.element("Arn", shown.arn);
  xml.close();
}

}  // namespace verbena::iam
