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
// accounts that may not be removed. The account that the call has removed; null: none.
auth::AccountEntryPtr answer_admin(auth::IdentityStore& store, const WallClock& clock, std::string_view call,
                                   std::string_view body, const std::set<std::string>& bucket_owners,
                                   s3::Response& response);
// Blocks. Puts back an account that was removed although it owns a bucket, and answers so; an error is in the log, too.
void put_back(auth::IdentityStore& store, const auth::AccountEntryPtr& removed, s3::Response& response);

// An empty message: the code's default.
void write_admin_error(const Error& error, std::string_view message, s3::Response& response);
void write_admin_answer(const nlohmann::json& answer, s3::Response& response);
// One of them.
void write_admin_outcome(const Result<nlohmann::json>& out, std::string_view message, s3::Response& response);
// validation_error: not a JSON object, or nested too deeply.
Result<nlohmann::json> read_admin_request(std::string_view body);

}  // namespace verbena::iam
