// The part of the admin API that is about the running server, behind `verbena admin`: admin/ answers it, here is who
// may ask. The server's own root key may, and so may users and roles of the root account whose policies say so. Rights
// are of the root account alone: what another account's policies say of "admin:..." is about nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "base/clock.h"
#include "base/task.h"
#include "s3/request.h"

namespace verbena::iam {

// What answers them. Thread-safe.
class OperatorCalls {
 public:
  virtual ~OperatorCalls() = default;
  virtual std::vector<std::string_view> calls() const = 0;
  // The right that a call takes, as policies name it ("admin:ServerInfo"); empty: there is no such call.
  virtual std::string_view right_of(std::string_view call) const = 0;
  // `in`: the request, an object. `message`: what is wrong with it, for people. References outlive the task.
  // `who`: the caller's ARN, for the log.
  virtual Task<Result<nlohmann::json>> serve(std::string_view call, std::string_view who, const nlohmann::json& in,
                                             std::string& message) = 0;
};

// access_denied.
Result<void> may_operate(const s3::Caller& caller, const auth::AccessKey& key, std::string_view right,
                         const WallClock& clock);

// Which of the calls somebody may make: of use to a page, which shows nobody what he may not do.
void answer_rights(const OperatorCalls& calls, const s3::Caller& caller, const auth::AccessKey& key,
                   const WallClock& clock, s3::Response& response);

// Fills `response` whatever comes of it. References outlive the task.
Task<void> answer_operator(OperatorCalls& calls, std::string_view call, std::string_view who, std::string_view body,
                           s3::Response& response);

}  // namespace verbena::iam
