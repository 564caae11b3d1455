// The part of the admin API about stored data: quotas of buckets, and the contents of buckets and accounts in numbers.
// Quotas of accounts and users are in admin.h, beside their keys.
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
#include "s3_http/request.h"
#include "store/store.h"

namespace verbena::iam {

// Whether the call is one of these, and not about an account or a user.
bool is_about_stored(std::string_view call, std::string_view body);

// Whether it sets a quota of an account with limits of storage.
bool sets_sizes(std::string_view call, std::string_view body);

// Called with the store's answer to a change of a bucket's quota, before it is acknowledged: what is cached of the
// bucket may be out of date.
using QuotaSet = std::function<void(const std::string& bucket, const Result<void>& set)>;

// Always fills `response`. References outlive the task.
Task<void> answer_stored(auth::IdentityStore& identities, store::Store& buckets, const QuotaSet& quota_set,
                         std::string_view call, std::string_view body, s3::Response& response);

}  // namespace verbena::iam
