// The part of the admin API that is about what is stored: quotas of buckets, and what buckets and accounts hold. Those
// of accounts and users are in admin.h, beside their keys.
//
//   quota-set    {bucket, quota}     quota: {[bytes, objects, requests_per_second, bytes_per_second]}: all of it
//   quota-get    {bucket}
//   quota-rm     {bucket}
//   usage        {bucket} or {name}  name: an account. What is kept, counted with every change
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "s3/request.h"
#include "store/store.h"

namespace verbena::iam {

// Whether the call is one of these, and not one of an account or a user.
bool is_about_stored(std::string_view call, std::string_view body);

// A quota of an account with limits of what is kept.
bool sets_sizes(std::string_view call, std::string_view body);

// Fills `response` whatever comes of it. `changed`: a quota is another one now. References outlive the task.
Task<void> answer_stored(auth::IdentityStore& identities, store::Store& buckets, const std::function<void()>& changed,
                         std::string_view call, std::string_view body, s3::Response& response);

}  // namespace verbena::iam
