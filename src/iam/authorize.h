// Authorization of calls.
#pragma once

#include <string>

#include "auth/attributes.h"
#include "iam/call.h"

namespace verbena::iam {

// Condition keys of any request to IAM, STS or the admin API. `resource_account`: the owner of its resource.
class CallerFacts final : public auth::Facts {
 public:
  // The arguments must outlive it.
  CallerFacts(const s3::Call& caller, const Surroundings& around, std::string_view resource_account)
      : caller_(caller), around_(around), resource_account_(resource_account) {}
  bool find(std::string_view key, auth::FactValues& values) const override;

 private:
  const s3::Call& caller_;
  const Surroundings& around_;
  std::string_view resource_account_;
};

// Condition keys of a call: those, and its parameters.
class CallFacts final : public auth::Facts {
 public:
  CallFacts(const Call& call, std::string_view resource_account)
      : call_(call), of_caller_(call.caller, call.around, resource_account) {}
  bool find(std::string_view key, auth::FactValues& values) const override;

 private:
  const Call& call_;
  const CallerFacts of_caller_;
};

// Condition keys of the tags and the source identity that a session is about to get.
bool find_attribute_fact(const auth::Attributes& attributes, std::string_view key, auth::FactValues& values);

// The resource of an IAM call, as named in policies.
std::string resource_of(const Call& call);

// access_denied, with AWS's sentence. `owner`: the resource's account; `policy`: the resource's own, null: none.
Result<void> authorize(const Call& call, std::string_view action, const std::string& resource,
                       const auth::Account& owner, const auth::Policy* policy = nullptr);

// Checks the caller's own policies, for resources of the caller's account. An account's root may do everything there.
Result<void> authorize_iam(const Call& call);

}  // namespace verbena::iam
