// Who may call what.
#pragma once

#include <string>

#include "iam/call.h"

namespace verbena::iam {

// What conditions may ask of a call.
class CallFacts final : public auth::Facts {
 public:
  explicit CallFacts(const Call& call) : call_(call) {}
  bool find(std::string_view key, auth::FactValues& values) const override;

 private:
  const Call& call_;
};

// The resource that a call of IAM is about, as policies name it.
std::string resource_of(const Call& call);

// access_denied, with AWS's sentence.
Result<void> authorize(const Call& call, std::string_view action, const std::string& resource,
                       const auth::Resource& side);

// By the caller's own policies, on what lies in the caller's account. An account's root may do everything there.
Result<void> authorize_iam(const Call& call);

}  // namespace verbena::iam
