// For tests: two accounts, a bucket of the first one with an object, and calls as any caller.
#pragma once

#include "auth/auth.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {

inline auth::AccountPtr make_account(std::string id, std::string canonical_id) {
  return std::make_shared<auth::Account>(
      auth::Account{std::move(id), canonical_id, canonical_id + "-name", canonical_id + "@example.com"});
}
inline const auth::AccountPtr alice = make_account("111111111111", "alice"), bob = make_account("222222222222", "bob");

class TwoAccounts : public auth::AccountDirectory {
 public:
  auth::AccountPtr by_canonical_id(std::string_view id) const override {
    return find(&auth::Account::canonical_id, id);
  }
  auth::AccountPtr by_email(std::string_view email) const override { return find(&auth::Account::email, email); }
  auth::AccountPtr by_id(std::string_view id) const override { return find(&auth::Account::id, id); }

 private:
  static auth::AccountPtr find(std::string auth::Account::* field, std::string_view value) {
    for (const auto& account : {alice, bob}) {
      if (account.get()->*field == value) return account;
    }
    return nullptr;
  }
};

inline auth::PrincipalPtr root_of(const auth::AccountPtr& account) {
  auth::Principal principal;
  principal.account = account;
  principal.arn = "arn:aws:iam::" + account->id + ":root";
  principal.user_id = account->id;
  return std::make_shared<auth::Principal>(principal);
}

inline auth::PrincipalPtr user_of(const auth::AccountPtr& account, const std::string& name,
                                  const std::string& statement) {
  auth::Principal principal;
  principal.kind = auth::Principal::Kind::user;
  principal.account = account;
  principal.arn = "arn:aws:iam::" + account->id + ":user/" + name;
  principal.user_id = "AIDA" + name;
  principal.name = name;
  if (!statement.empty()) {
    auto policy =
        auth::parse_policy(R"({"Version":"2012-10-17","Statement":)" + statement + "}", auth::PolicyKind::identity);
    EXPECT_TRUE(policy) << (policy ? "" : policy.error().context);
    principal.policies.push_back(*policy);
  }
  return std::make_shared<auth::Principal>(principal);
}

class AccessRig : public Rig {
 protected:
  AccessRig() {
    service.accounts = &directory_;
    as(alice_, "PUT", "/bucket");
    as(alice_, "PUT", "/bucket/key", "text");
  }
  Reply as(const auth::PrincipalPtr& who, const std::string& method, const std::string& target, std::string body = {},
           Headers headers = {}) {
    TestCall c;
    c.method = method;
    c.target = target;
    c.body = std::move(body);
    c.headers = std::move(headers);
    c.anonymous = who == nullptr;
    c.principal = who;
    return call(std::move(c));
  }
  int status(const auth::PrincipalPtr& who, const std::string& method, const std::string& target,
             Headers headers = {}) {
    return as(who, method, target, method == "PUT" ? "body" : "", std::move(headers)).status;
  }
  Reply policy(const std::string& statement, Headers headers = {}) {
    return as(alice_, "PUT", "/bucket?policy", R"({"Version":"2012-10-17","Statement":)" + statement + "}",
              std::move(headers));
  }
  static std::string allow(const std::string& principal, const std::string& action, const std::string& rest = "") {
    return R"({"Effect":"Allow","Principal":)" + principal + R"(,"Action":")" + action +
           R"(","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"])" + rest + "}";
  }
  static std::string acl(const std::string& owner, const std::string& grants) {
    return "<AccessControlPolicy><Owner><ID>" + owner + "</ID></Owner><AccessControlList>" + grants +
           "</AccessControlList></AccessControlPolicy>";
  }
  static std::string grant_to(const std::string& id, const std::string& permission) {
    return "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>" +
           id + "</ID></Grantee><Permission>" + permission + "</Permission></Grant>";
  }

  TwoAccounts directory_;
  const auth::PrincipalPtr alice_ = root_of(alice), bob_ = root_of(bob), nobody_ = nullptr;
};

}  // namespace verbena::s3::test
