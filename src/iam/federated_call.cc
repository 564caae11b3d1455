#include "iam/federated_call.h"

#include "iam/authorize.h"

namespace verbena::iam {
namespace {

class VouchedFacts final : public auth::Facts {
 public:
  VouchedFacts(const Call& call, const Vouched& vouched)
      : call_(call, vouched.wanted.account->account->id), vouched_(vouched) {}

  bool find(std::string_view key, auth::FactValues& values) const override {
    if (call_.find(key, values) || find_attribute_fact(vouched_.attributes, key, values)) return true;
    if (key == "aws:federatedprovider") {
      values.push_back(vouched_.by);
      return true;
    }
    return vouched_.claim && vouched_.claim(key, values);
  }

 private:
  const CallFacts call_;
  const Vouched& vouched_;
};

}  // namespace

Result<void> authorize_vouched(const FederatedCall& federated, const Vouched& vouched, std::string_view action) {
  const auto may = [&](std::string_view asked) -> Result<void> {
    if (vouched.wanted.role != nullptr) {
      auth::Principal by;
      by.kind = auth::Principal::Kind::federated;
      by.account = vouched.wanted.account->account;
      by.arn = vouched.by;
      const VouchedFacts facts(federated.call, vouched);
      const std::string arn = role_arn(*vouched.wanted.account, *vouched.wanted.role);
      const auto effect = evaluate_resource(*vouched.wanted.role->trust.policy, {&by, asked, arn, &facts});
      if (!effect.denied && effect.allowed >= auth::Reach::principal) return {};
    }
    return federated.refuse(sign_in::Refusal::Kind::denied, "Not authorized to perform " + std::string(asked));
  };
  if (vouched.wanted.role != nullptr) federated.call.item_tags = &vouched.wanted.role->tags;
  VB_TRY(may(action));
  if (!vouched.attributes.tags.empty()) VB_TRY(may("sts:TagSession"));
  if (!vouched.attributes.source_identity.empty()) VB_TRY(may("sts:SetSourceIdentity"));
  return {};
}

Result<auth::Credentials> make_vouched_session(const FederatedCall& federated, const Vouched& vouched,
                                               auth::SessionContents& contents) {
  contents.attributes = vouched.attributes;
  auth::AccessKey by;
  by.parent_key = vouched.by;
  by.parent_tag = vouched.by_tag;
  VB_ASSIGN(auth::Credentials made, make_credentials(federated.call, contents, by));
  federated.reply.who = {std::make_shared<const auth::Principal>(
                             role_session(*vouched.wanted.account, *vouched.wanted.role, contents.session_name)),
                         made.access_key};
  return made;
}

std::string voucher_arn(const RoleOfArn& wanted, std::string_view kind, std::string_view name) {
  return wanted.account == nullptr ? std::string() : auth::arn_of(wanted.account->account->id, kind, "/", name);
}

}  // namespace verbena::iam
