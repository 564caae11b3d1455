// Policies come from clients, and are evaluated for every request.
#include <string>

#include "auth/policy.h"
#include "auth/principal.h"

namespace {

using namespace verbena::auth;

class FixedFacts : public Facts {
 public:
  bool find(std::string_view key, FactValues& values) const override {
    if (key == "s3:prefix") values.emplace_back("home/ann");
    if (key == "aws:sourceip") values.emplace_back("192.0.2.7");
    if (key == "aws:currenttime") values.emplace_back("2026-03-01T12:00:00Z");
    if (key == "aws:securetransport") values.emplace_back("false");
    if (key == "s3:requestobjecttagkeys") values = {"a", "b"};
    return !values.empty();
  }
};

Principal make_user() {
  Principal user;
  user.kind = Principal::Kind::user;
  user.account = std::make_shared<Account>(Account{"111111111111", "canonical", "name", ""});
  user.arn = "arn:aws:iam::111111111111:user/ann";
  user.user_id = "AIDA";
  user.name = "ann";
  return user;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Principal user = make_user();
  const FixedFacts facts;
  for (const PolicyKind kind : {PolicyKind::identity, PolicyKind::resource, PolicyKind::trust}) {
    const auto policy = parse_policy(text, kind);
    if (!policy) continue;
    if (policy_text(**policy) != text) __builtin_trap();
    for (const Principal* principal : {static_cast<const Principal*>(nullptr), &user}) {
      const Question question{principal, "s3:GetObject", "arn:aws:s3:::photos/home/ann/x.jpg", &facts};
      const auto effect = evaluate_resource(**policy, question);
      if (effect.denied && effect.allowed != Reach::none) __builtin_trap();
      const auto decision = decide(question, {.policy = policy->get(), .owner = "canonical"});
      if (effect.denied != (decision == Decision::denied)) __builtin_trap();
    }
    (void)is_public(**policy);
    (void)concerns_only(**policy, "photos");
  }
  return 0;
}
