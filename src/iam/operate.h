// Authorization for the part of the admin API about the running server, behind `verbena admin` (implemented in admin/).
// Allowed are the server's own root key, and users and roles of the root account whose policies allow it. Only the root
// account's policies count: "admin:..." in another account's policies has no effect.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "base/task.h"
#include "iam/surroundings.h"
#include "s3_http/request.h"

namespace verbena::iam {

// The implementation of these calls. Thread-safe.
class OperatorCalls {
 public:
  virtual ~OperatorCalls() = default;
  virtual std::vector<std::string_view> calls() const = 0;
  // The right that a call requires, as named in policies ("admin:ServerInfo"); empty: no such call.
  virtual std::string_view right_of(std::string_view call) const = 0;
  // `in`: the request, an object. `message`: receives the error, for users. References outlive the task. `who`: the
  // caller's ARN, for the log.
  virtual Task<Result<nlohmann::json>> serve(std::string_view call, std::string_view who, const nlohmann::json& in,
                                             std::string& message) = 0;
};

// access_denied.
Result<void> may_operate(const s3::Call& caller, const auth::AccessKey& key, std::string_view right,
                         const Surroundings& around);

// The calls that the caller may make: for a page that shows only these.
void answer_rights(const OperatorCalls& calls, const s3::Call& caller, const auth::AccessKey& key,
                   const Surroundings& around, s3::Response& response);

// Always fills `response`. References outlive the task.
Task<void> answer_operator(OperatorCalls& calls, std::string_view call, std::string_view who, std::string_view body,
                           s3::Response& response);

}  // namespace verbena::iam
