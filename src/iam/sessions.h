// Common parts of the calls that make credentials of a role, however the caller authenticates.
#pragma once

#include <string>
#include <string_view>

#include "auth/session_token.h"
#include "iam/call.h"

namespace verbena::iam {

struct RoleOfArn {
  auth::AccountEntryPtr account;     // of the ARN; null: unknown
  const auth::Role* role = nullptr;  // null: no such role
};
// The role in RoleArn. validation_error: not an ARN.
Result<RoleOfArn> find_role(const Call& call);
Result<RoleOfArn> find_role(const Call& call, std::string_view arn);

Result<std::string> session_name(const Call& call);

// How long the session lasts: DurationSeconds, at most `longest`.
Result<int64_t> session_duration(const Call& call, int64_t longest);

// The session's identity, limited by the call's Policy and PolicyArns.
Result<auth::SessionContents> role_contents(const Call& call, const RoleOfArn& wanted, const std::string& name,
                                            int64_t duration_s);

// packed_policy_too_large: the session's token would be too long for a header.
Result<auth::Credentials> make_credentials(const Call& call, auth::SessionContents& contents,
                                           const auth::AccessKey& by);

void write_credentials(s3::XmlWriter& xml, const auth::Credentials& made, int64_t expires_s);
void write_role_user(s3::XmlWriter& xml, const RoleOfArn& wanted, std::string_view name);

}  // namespace verbena::iam
