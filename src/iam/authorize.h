// Authorization of calls.
#pragma once

#include <string>

#include "auth/attributes.h"
#include "iam/call.h"

namespace verbena::iam {

// Condition keys of any request: its sender's address, transport and time.
bool find_request_fact(const s3::Call& caller, const WallClock& clock, std::string_view key, auth::FactValues& values);

// Condition keys of a call.
class CallFacts final : public auth::Facts {
 public:
  explicit CallFacts(const Call& call) : call_(call) {}
  bool find(std::string_view key, auth::FactValues& values) const override;

 private:
  const Call& call_;
};

// Condition keys of the tags and the source identity that a session is about to get.
bool find_attribute_fact(const auth::Attributes& attributes, std::string_view key, auth::FactValues& values);

// The resource of an IAM call, as named in policies.
std::string resource_of(const Call& call);

// access_denied, with AWS's sentence.
Result<void> authorize(const Call& call, std::string_view action, const std::string& resource,
                       const auth::Resource& side);

// Checks the caller's own policies, for resources of the caller's account. An account's root may do everything there.
Result<void> authorize_iam(const Call& call);

}  // namespace verbena::iam
