#include "iam/operate.h"

#include <nlohmann/json.hpp>

#include "iam/admin.h"
#include "iam/authorize.h"

namespace verbena::iam {

Result<void> may_operate(const s3::Call& caller, const auth::AccessKey& key, std::string_view right,
                         const Surroundings& around) {
  const auth::Principal* who = key.principal.get();
  const auto refused = [] {
    return fail(Errc::access_denied, "This needs the server's root key, or a right in the root account.");
  };
  // Temporary keys are refused, as with IAM; a session of a directory bucket has one, too.
  if (who == nullptr || who->account == nullptr || key.expires_s != 0 || key.limits) return refused();
  if (who->account->id != auth::root_account_id) return refused();
  const CallerFacts facts(caller, around, auth::root_account_id);
  const auth::Question question{who, right, "*", &facts};
  const auth::Resource side{.policy = nullptr, .owner = auth::root_canonical_id};
  if (decide(question, side) == auth::Decision::allowed) return {};
  return refused();
}

void answer_rights(const OperatorCalls& calls, const s3::Call& caller, const auth::AccessKey& key,
                   const Surroundings& around, s3::Response& response) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string_view call : calls.calls()) {
    if (may_operate(caller, key, calls.right_of(call), around)) list.emplace_back(std::string(call));
  }
  const Result<nlohmann::json> out = nlohmann::json{{"calls", std::move(list)}};
  write_admin_outcome(out, {}, response);
}

Task<void> answer_operator(OperatorCalls& calls, std::string_view call, std::string_view who, std::string_view body,
                           s3::Response& response) {
  auto in = read_admin_request(body);
  if (!in) {
    write_admin_error(in.error(), {}, response);
    co_return;
  }
  std::string message;
  const auto out = co_await calls.serve(call, who, *in, message);
  write_admin_outcome(out, message, response);
}

}  // namespace verbena::iam
