// The admin API, called by `verbena user`. A JSON object in, a JSON object out. `http/` passes requests of a running
// server, `cli/` calls it for the data directory of a stopped one.
//
//   user-add     {name, [id, display_name, email, path, access_key, secret_key]}
//   user-list    {}
//   user-rm      {name}
//   key-add      {name, [access_key, secret_key]}
//   key-list     {name}
//   key-set      {name, access_key, active}
//   key-rm       {name, access_key}
//   policy-put   {name, policy, document}            document: a JSON object or its text
//   policy-get   {name, policy}
//   policy-rm    {name, policy}
//   policy-attach, policy-detach  {name, arn}
//   policy-list  {name}
//   quota-set    {name, quota}                       quota as in stored.h; of a user: rates alone
//   quota-get    {name}
//   quota-rm     {name}
//
// `name` is an account ("acme") or a user in one ("acme/alice"). Policies are of users: an account's root has none.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "base/clock.h"
#include "s3_http/request.h"

namespace verbena::iam {

// Whether the call needs the list of accounts that own buckets.
bool removes_accounts(std::string_view call);

// Blocks. Always fills `response`: {"error": {"code", "message"}} for an error. `bucket_owners`: canonical ids of
// accounts that may not be removed. The account that the call has marked as being removed: the caller lists the owners
// of buckets again, and calls end_removal(). Null: none.
auth::AccountEntryPtr answer_admin(auth::IdentityStore& store, const WallClock& clock, std::string_view call,
                                   std::string_view body, const std::set<std::string>& bucket_owners,
                                   s3::Response& response);
// Blocks. Erases the account that answer_admin() has marked; or keeps it if it owns a bucket or the owners are not
// known, and answers so. `bucket_owners`: listed after the account was marked. A failure is in the log, too.
void end_removal(auth::IdentityStore& store, const auth::AccountEntryPtr& marked,
                 const Result<std::set<std::string>>& bucket_owners, s3::Response& response);
// Logs that the account is still marked.
void tell_removal_is_open(std::string_view account, const Error& error);

// An empty message: the code's default.
void write_admin_error(const Error& error, std::string_view message, s3::Response& response);
void write_admin_answer(const nlohmann::json& answer, s3::Response& response);
// One of them.
void write_admin_outcome(const Result<nlohmann::json>& out, std::string_view message, s3::Response& response);
// validation_error: not a JSON object, or nested too deeply.
Result<nlohmann::json> read_admin_request(std::string_view body);

}  // namespace verbena::iam
