#include "iam/operate.h"

#include <nlohmann/json.hpp>

#include "base/date.h"
#include "iam/admin.h"

namespace verbena::iam {
namespace {

class CallerFacts final : public auth::Facts {
 public:
  CallerFacts(const s3::Caller& caller, const WallClock& clock) : caller_(caller), clock_(clock) {}
  bool find(std::string_view key, auth::FactValues& values) const override {
    if (key == "aws:sourceip") {
      values.push_back(caller_.peer_address);
    } else if (key == "aws:securetransport") {
      values.emplace_back(caller_.secure ? "true" : "false");
    } else if (key == "aws:currenttime") {
      values.push_back(format_iso8601(clock_.now_us()));
    } else if (key == "aws:epochtime") {
      values.push_back(std::to_string(clock_.now_s()));
    } else {
      return false;
    }
    return true;
  }

 private:
  const s3::Caller& caller_;
  const WallClock& clock_;
};

}  // namespace

Result<void> may_operate(const s3::Caller& caller, const auth::AccessKey& key, std::string_view right,
                         const WallClock& clock) {
  const auth::Principal* who = key.principal.get();
  const auto refused = [] {
    return fail(Errc::access_denied, "This takes the server's root key, or a right in the root account.");
  };
  // Keys that end are left out, as with IAM: a session of a directory bucket is one, too.
  if (who == nullptr || who->account == nullptr || key.expires_s != 0 || key.limits) return refused();
  if (who->account->id != auth::root_account_id) return refused();
  const CallerFacts facts(caller, clock);
  const auth::Question question{who, right, "*", &facts};
  const auth::Resource side{.policy = nullptr, .owner = auth::root_canonical_id};
  if (decide(question, side) == auth::Decision::allowed) return {};
  return refused();
}

Task<void> answer_operator(OperatorCalls& calls, std::string_view call, std::string_view body, s3::Response& response) {
  auto in = read_admin_request(body);
  if (!in) {
    write_admin_error(in.error(), {}, response);
    co_return;
  }
  std::string message;
  const auto out = co_await calls.serve(call, *in, message);
  if (out) {
    write_admin_answer(*out, response);
  } else {
    write_admin_error(out.error(), message, response);
  }
}

}  // namespace verbena::iam
