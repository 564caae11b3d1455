#include "auth/policy.h"

#include <gtest/gtest.h>

#include <map>

#include "auth/attributes.h"
#include "auth/principal.h"

namespace verbena::auth {
namespace {

class MapFacts : public Facts {
 public:
  MapFacts(std::initializer_list<std::pair<const std::string, FactValues>> values) : values_(values) {}
  bool find(std::string_view key, FactValues& values) const override {
    const auto it = values_.find(std::string(key));
    if (it == values_.end()) return false;
    values.insert(values.end(), it->second.begin(), it->second.end());
    return true;
  }

 private:
  std::map<std::string, FactValues> values_;
};

AccountPtr account(std::string id, std::string canonical_id) {
  return std::make_shared<Account>(Account{std::move(id), std::move(canonical_id), "name", ""});
}
const AccountPtr alice = account("111111111111", "alice-canonical");
const AccountPtr bob = account("222222222222", "bob-canonical");

Principal root_of(const AccountPtr& of) {
  Principal principal;
  principal.account = of;
  principal.arn = "arn:aws:iam::" + of->id + ":root";
  principal.user_id = of->id;
  return principal;
}
Principal user_of(const AccountPtr& of, const std::string& name) {
  Principal principal;
  principal.kind = Principal::Kind::user;
  principal.account = of;
  principal.arn = "arn:aws:iam::" + of->id + ":user/" + name;
  principal.user_id = "AIDA" + name;
  principal.name = name;
  return principal;
}
Principal session_of(const AccountPtr& of, const std::string& role, const std::string& session) {
  Principal principal;
  principal.kind = Principal::Kind::assumed_role;
  principal.account = of;
  principal.arn = "arn:aws:sts::" + of->id + ":assumed-role/" + role + "/" + session;
  principal.user_id = "AROA:" + session;
  return principal;
}

PolicyPtr parsed(std::string_view json, PolicyKind kind) {
  auto policy = parse_policy(json, kind);
  EXPECT_TRUE(policy) << json << ": " << (policy ? "" : policy.error().context);
  return policy.value_or(nullptr);
}
PolicyPtr identity(std::string_view statement) {
  return parsed(R"({"Version":"2012-10-17","Statement":[)" + std::string(statement) + "]}", PolicyKind::identity);
}
PolicyPtr resource(std::string_view statement) {
  return parsed(R"({"Version":"2012-10-17","Statement":[)" + std::string(statement) + "]}", PolicyKind::resource);
}
// A statement of a bucket policy for everyone, with that Condition.
PolicyPtr with_condition(const std::string& condition) {
  return resource(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"*","Condition":)" + condition + "}");
}
bool holds(const std::string& condition, const Facts& facts, const Principal* principal = nullptr) {
  return evaluate_resource(*with_condition(condition), {principal, "s3:GetObject", "arn:aws:s3:::b/k", &facts})
             .allowed != Reach::none;
}

std::string refusal(std::string_view json, PolicyKind kind = PolicyKind::resource) {
  const auto policy = parse_policy(json, kind);
  return policy ? "accepted" : policy.error() == Errc::malformed_policy ? policy.error().context : "another error";
}
std::string refusal_of(const std::string& statement, PolicyKind kind = PolicyKind::resource) {
  return refusal(R"({"Version":"2012-10-17","Statement":)" + statement + "}", kind);
}

constexpr std::string_view get_all = R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"*"})";
constexpr std::string_view deny_get = R"({"Effect":"Deny","Action":"s3:GetObject","Resource":"*"})";

Question get(const Principal* principal) { return {principal, "s3:GetObject", "arn:aws:s3:::photos/a/b.jpg", nullptr}; }

TEST(PolicyParse, RefusesWhatIsNoPolicy) {
  EXPECT_EQ(refusal(""), "Policies must be valid JSON and the first byte must be '{'");
  EXPECT_EQ(refusal("[]"), "Policies must be valid JSON and the first byte must be '{'");
  EXPECT_EQ(refusal(R"({"Statement":[],"Statement":[]})"), "Policy has a field twice.");
  EXPECT_EQ(refusal("{}"), "Missing required field Statement.");
  EXPECT_EQ(refusal(R"({"Statement":[]})"), "A policy must have a statement.");
  EXPECT_EQ(refusal(R"({"Version":"2020-01-01","Statement":[]})"), "The policy must contain a valid version string.");
  EXPECT_EQ(refusal(R"({"Sattement":[]})"), "The policy has an unknown field.");
  std::string deep = R"({"Statement":)" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_EQ(refusal(deep), "Policy is nested too deeply.");
}

TEST(PolicyParse, RefusesTooLongAPolicyBeforeItReadsIt) {
  const auto policy = parse_policy(std::string(policy_bytes_max + 1, ' '), PolicyKind::resource);
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().code, Errc::too_large);
}

TEST(PolicyParse, RefusesANulCharacterWhereverItStands) {
  const std::string rest = R"("Effect":"Allow","Principal":"*","Action":"s3:*")";
  EXPECT_EQ(refusal_of("{" + rest + R"(,"Resource":"arn:aws:s3:::b/a\u0000*"})"), "Policy holds a NUL character.");
  EXPECT_EQ(refusal_of("{" + rest + R"(,"Resource":"arn:aws:s3:::b/*","Sid":"\u0000"})"),
            "Policy holds a NUL character.");
  EXPECT_EQ(refusal_of("{" + rest + R"(,"Resource":"*","Condition":{"StringEquals":{"aws:UserAgent\u0000":"a"}}})"),
            "Policy holds a NUL character.");
}

TEST(PolicyParse, RefusesStatementsThatAwsRefuses) {
  const std::string rest = R"("Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::b/*"})";
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow",)" + rest), "accepted");
  EXPECT_EQ(refusal_of("{" + rest), "Missing required field Effect.");
  EXPECT_EQ(refusal_of(R"({"Effect":"allow",)" + rest), "Invalid effect: it must be Allow or Deny.");
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow","Colour":"red",)" + rest), "A statement has an unknown field.");
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow","NotAction":"s3:*",)" + rest),
            "A statement cannot have both Action and NotAction.");
  EXPECT_EQ(refusal_of(R"([{"Sid":"a","Effect":"Allow",)" + rest + R"(,{"Sid":"a","Effect":"Deny",)" + rest + "]"),
            "Statement IDs (SID) in a single policy must be unique.");
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow","NotPrincipal":{"AWS":"1"},"Action":"s3:*","Resource":"*"})"),
            "Allow with NotPrincipal is not supported.");
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})"), "Missing required field Principal.");
  EXPECT_EQ(refusal_of(R"({"Effect":"Allow",)" + rest, PolicyKind::identity),
            "An identity policy cannot have the element Principal.");
  for (const char* action : {"s3:NoSuchThing", "GetObject", "s3:", ":x", "ec2:*", "s3:Get Object"}) {
    EXPECT_EQ(
        refusal_of(R"({"Effect":"Allow","Principal":"*","Resource":"*","Action":")" + std::string(action) + "\"}"),
        "Policy has invalid action.")
        << action;
  }
  for (const char* arn : {"b/*", "arn:aws:s3:b", "", "arn:aws:s3:::${aws:username"}) {
    EXPECT_EQ(
        refusal_of(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":")" + std::string(arn) + "\"}"),
        "Policy has invalid resource.")
        << arn;
  }
  for (const char* principal :
       {R"("alice")", R"({"AWS":"arn:aws:iam::1:user/*"})", R"({"AWS":[]})", R"({"Nobody":"*"})",
        R"({"AWS":"arn:aws:s3:::b"})", R"({"CanonicalUser":"*"})", "{}", "7"}) {
    EXPECT_EQ(
        refusal_of(R"({"Effect":"Allow","Action":"s3:*","Resource":"*","Principal":)" + std::string(principal) + "}"),
        "Invalid principal in policy.")
        << principal;
  }
}

TEST(PolicyParse, RefusesConditionsThatWouldNeverHold) {
  const auto refused = [](const std::string& condition) {
    return refusal_of(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"*","Condition":)" + condition +
                      "}");
  };
  EXPECT_EQ(refused(R"({"StringEquals":{"s3:prefix":"a"}})"), "accepted");
  EXPECT_EQ(refused(R"({"StringSame":{"s3:prefix":"a"}})"), "Policy has an invalid condition operator.");
  EXPECT_EQ(refused(R"({"NullIfExists":{"s3:prefix":"true"}})"), "Policy has an invalid condition operator.");
  EXPECT_EQ(refused(R"({"StringEquals":{"s3:perfix":"a"}})"), "Policy has an invalid condition key.");
  EXPECT_EQ(refused(R"({"IpAddress":{"aws:SourceIp":"10.0.0.0/33"}})"), "Policy has an invalid condition value.");
  EXPECT_EQ(refused(R"({"Bool":{"aws:SecureTransport":"maybe"}})"), "Policy has an invalid condition value.");
  EXPECT_EQ(refused(R"({"DateLessThan":{"aws:CurrentTime":"2026-02-30"}})"), "Policy has an invalid condition value.");
  EXPECT_EQ(refused(R"({"StringEquals":{"s3:prefix":{"a":1}}})"), "Policy has an invalid condition value.");
}

TEST(PolicyEvaluate, ADenialAnywhereDecides) {
  Principal user = user_of(alice, "ann");
  user.policies = {identity(get_all)};
  EXPECT_EQ(decide(get(&user), {.owner = alice->canonical_id}), Decision::allowed);
  user.policies.push_back(identity(deny_get));
  EXPECT_EQ(decide(get(&user), {.owner = alice->canonical_id}), Decision::denied);
  const auto bucket = resource(R"({"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"})");
  const Principal root = root_of(alice);
  EXPECT_EQ(decide(get(&root), {.policy = bucket.get(), .owner = alice->canonical_id}), Decision::denied);
}

TEST(PolicyEvaluate, WithinAnAccountOneSideIsEnough) {
  Principal user = user_of(alice, "ann");
  EXPECT_EQ(decide(get(&user), {.owner = alice->canonical_id}), Decision::refused);
  const auto named = resource(R"({"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111111111111:user/ann"},)"
                              R"("Action":"s3:Get*","Resource":"*"})");
  EXPECT_EQ(decide(get(&user), {.policy = named.get(), .owner = alice->canonical_id}), Decision::allowed);
  // Naming the account alone grants nothing to its users.
  const auto account_only =
      resource(R"({"Effect":"Allow","Principal":{"AWS":"111111111111"},"Action":"s3:Get*","Resource":"*"})");
  EXPECT_EQ(decide(get(&user), {.policy = account_only.get(), .owner = alice->canonical_id}), Decision::refused);
  const Principal root = root_of(alice);
  EXPECT_EQ(decide(get(&root), {.owner = alice->canonical_id}), Decision::allowed);
}

TEST(PolicyEvaluate, AcrossAccountsBothSidesMustAllow) {
  Principal user = user_of(bob, "ben");
  const auto bucket =
      resource(R"({"Effect":"Allow","Principal":{"AWS":"222222222222"},"Action":"s3:Get*","Resource":"*"})");
  const Resource owned{.policy = bucket.get(), .owner = alice->canonical_id};
  EXPECT_EQ(decide(get(&user), owned), Decision::refused);
  user.policies = {identity(get_all)};
  EXPECT_EQ(decide(get(&user), {.owner = alice->canonical_id}), Decision::refused);
  EXPECT_EQ(decide(get(&user), owned), Decision::allowed);
  const Principal root = root_of(bob);
  EXPECT_EQ(decide(get(&root), owned), Decision::allowed);
  EXPECT_EQ(decide(get(&root), {.owner = alice->canonical_id}), Decision::refused);
  EXPECT_EQ(decide(get(&root), {.owner = alice->canonical_id, .granted = Reach::account}), Decision::allowed);
}

TEST(PolicyEvaluate, ASessionGetsNoMoreThanItsPolicies) {
  Principal session = session_of(alice, "reader", "job1");
  session.policies = {identity(get_all)};
  EXPECT_EQ(decide(get(&session), {.owner = alice->canonical_id}), Decision::allowed);
  session.session = {identity(R"({"Effect":"Allow","Action":"s3:PutObject","Resource":"*"})")};
  EXPECT_EQ(decide(get(&session), {.owner = alice->canonical_id}), Decision::refused);
  const auto role = resource(R"({"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111111111111:role/reader"},)"
                             R"("Action":"s3:Get*","Resource":"*"})");
  EXPECT_EQ(decide(get(&session), {.policy = role.get(), .owner = alice->canonical_id}), Decision::refused);
  const auto named =
      resource(R"({"Effect":"Allow","Principal":{"AWS":"arn:aws:sts::111111111111:assumed-role/reader/job1"},)"
               R"("Action":"s3:Get*","Resource":"*"})");
  EXPECT_EQ(decide(get(&session), {.policy = named.get(), .owner = alice->canonical_id}), Decision::allowed);
}

TEST(PolicyEvaluate, AnonymousCallersHaveWhatEveryoneHas) {
  const auto everyone = resource(
      R"({"Effect":"Allow","Principal":{"AWS":"*"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::photos/*"})");
  EXPECT_EQ(decide(get(nullptr), {.policy = everyone.get(), .owner = "x"}), Decision::allowed);
  EXPECT_EQ(decide(get(nullptr), {.owner = "x"}), Decision::refused);
  EXPECT_EQ(decide(get(nullptr), {.policy = everyone.get(), .owner = "x", .own_account_only = true}),
            Decision::refused);
  const Principal root = root_of(bob);
  EXPECT_EQ(decide(get(&root), {.policy = everyone.get(), .owner = alice->canonical_id, .own_account_only = true}),
            Decision::refused);
  EXPECT_EQ(decide(get(&root), {.policy = everyone.get(), .owner = alice->canonical_id}), Decision::allowed);
}

// AWS's "revoke sessions" policy had no effect: the fact was missing.
TEST(PolicyEvaluate, OlderSessionsAreRevokedByTheTimeOfTheirToken) {
  const auto policy = identity(R"({"Effect":"Deny","Action":"*","Resource":"*",
                                   "Condition":{"DateLessThan":{"aws:TokenIssueTime":"2026-01-02T03:04:05Z"}}})");
  Principal session = session_of(alice, "jobs", "job");
  const auto effect = [&](std::optional<int64_t> issued_s) {
    session.token_issued_s = issued_s;
    return evaluate(*policy, get(&session));
  };
  const int64_t revoked_s = 1'767'323'045;
  EXPECT_EQ(effect(revoked_s - 1), Effect::deny);
  EXPECT_EQ(effect(0), Effect::deny);
  EXPECT_EQ(effect(revoked_s), Effect::none);
  EXPECT_EQ(effect(revoked_s + 1), Effect::none);
  EXPECT_EQ(effect(std::nullopt), Effect::none) << "a lasting key has no token";
}

TEST(PolicyEvaluate, PrincipalsAreNamedInEachForm) {
  Principal user = user_of(alice, "eng/ann");
  Principal root = root_of(alice);
  const auto reach = [](const std::string& names, const Principal* principal) {
    const auto policy = resource(R"({"Effect":"Allow","Action":"s3:*","Resource":"*","Principal":)" + names + "}");
    return evaluate_resource(*policy, get(principal)).allowed;
  };
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam::111111111111:user/eng/ann"})", &user), Reach::principal);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam::alice-canonical:user/eng/ann"})", &user), Reach::principal);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam:::user/eng/ann"})", &user), Reach::none);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam::222222222222:user/eng/ann"})", &user), Reach::none);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam::111111111111:user/ann"})", &user), Reach::none);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam::111111111111:root"})", &user), Reach::account);
  EXPECT_EQ(reach(R"({"AWS":["222222222222","arn:aws:iam::111111111111:root"]})", &root), Reach::principal);
  EXPECT_EQ(reach(R"({"CanonicalUser":"alice-canonical"})", &root), Reach::principal);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam:::user/alice-canonical"})", &root), Reach::principal);
  EXPECT_EQ(reach(R"({"AWS":"arn:aws:iam:::user/111111111111"})", nullptr), Reach::none);
  EXPECT_EQ(reach(R"({"Service":"logging.s3.amazonaws.com"})", &root), Reach::none);
  EXPECT_EQ(reach("\"*\"", nullptr), Reach::principal);
}

TEST(PolicyEvaluate, AnArnReachesNoOtherAccount) {
  const auto reach = [](const std::string& arn, const Principal& principal) {
    const auto policy =
        resource(R"({"Effect":"Allow","Action":"s3:*","Resource":"*","Principal":{"AWS":")" + arn + "\"}}");
    return evaluate_resource(*policy, get(&principal)).allowed;
  };
  // An account with the name of a user in another account.
  const AccountPtr named_ann = account("333333333333", "ann");
  EXPECT_EQ(reach("arn:aws:iam::111111111111:user/ann", root_of(named_ann)), Reach::none);
  EXPECT_EQ(reach("arn:aws:iam::111111111111:user/ann", user_of(named_ann, "ann")), Reach::none);
  EXPECT_EQ(reach("arn:aws:iam::111111111111:user/ann", user_of(alice, "ann")), Reach::principal);
  // Whatever the account is called: only an ARN without an account can mean one.
  for (const char* tenant : {"alice-canonical", "tenant", "alice"}) {
    const std::string arn = std::string("arn:aws:iam::") + tenant + ":user/ann";
    EXPECT_EQ(reach(arn, root_of(named_ann)), Reach::none) << arn;
    EXPECT_EQ(reach(arn, user_of(named_ann, "bob")), Reach::none) << arn;
  }
  // RADOS Gateway's ARN is the account, never a user of that name in any account.
  EXPECT_EQ(reach("arn:aws:iam:::user/ann", root_of(named_ann)), Reach::principal);
  EXPECT_EQ(reach("arn:aws:iam:::user/ann", user_of(named_ann, "ben")), Reach::account);
  EXPECT_EQ(reach("arn:aws:iam:::user/ann", user_of(alice, "ann")), Reach::none);
  // Roles and sessions always belong to an account.
  const Principal session = session_of(alice, "reader", "job");
  EXPECT_EQ(reach("arn:aws:iam::111111111111:role/reader", session), Reach::principal);
  EXPECT_EQ(reach("arn:aws:iam:::role/reader", session), Reach::none);
  EXPECT_EQ(reach("arn:aws:sts:::assumed-role/reader/job", session), Reach::none);
}

TEST(PolicyEvaluate, NotPrincipalSparesOnlyWhoIsNamed) {
  const auto policy = resource(
      R"({"Effect":"Deny","Action":"s3:*","Resource":"*","NotPrincipal":{"AWS":["arn:aws:iam::111111111111:user/ann",)"
      R"("arn:aws:iam::111111111111:root"]}})");
  const Principal ann = user_of(alice, "ann"), al = user_of(alice, "al"), root = root_of(alice), other = root_of(bob);
  EXPECT_FALSE(evaluate_resource(*policy, get(&ann)).denied);
  EXPECT_FALSE(evaluate_resource(*policy, get(&root)).denied);
  EXPECT_TRUE(evaluate_resource(*policy, get(&al)).denied);
  EXPECT_TRUE(evaluate_resource(*policy, get(&other)).denied);
  EXPECT_TRUE(evaluate_resource(*policy, get(nullptr)).denied);
}

TEST(PolicyEvaluate, WildcardsAndVariablesInResources) {
  const Principal user = user_of(alice, "ann");
  const auto allows = [&](const std::string& arn, std::string_view asked) {
    const auto policy = identity(R"({"Effect":"Allow","Action":"s3:get*","Resource":")" + arn + "\"}");
    return evaluate(*policy, {&user, "s3:GetObject", asked, nullptr}) == Effect::allow;
  };
  EXPECT_TRUE(allows("arn:aws:s3:::photos/*", "arn:aws:s3:::photos/a/b"));
  EXPECT_FALSE(allows("arn:aws:s3:::photos/*", "arn:aws:s3:::photos"));
  EXPECT_TRUE(allows("arn:aws:s3:::photos/?/*.jpg", "arn:aws:s3:::photos/a/x.jpg.jpg"));
  EXPECT_FALSE(allows("arn:aws:s3:::photos/?/*.jpg", "arn:aws:s3:::photos/ab/x.jpg"));
  EXPECT_TRUE(allows("arn:aws:s3:::home/${aws:username}/*", "arn:aws:s3:::home/ann/x"));
  EXPECT_FALSE(allows("arn:aws:s3:::home/${aws:username}/*", "arn:aws:s3:::home/al/x"));
  EXPECT_FALSE(allows("arn:aws:s3:::home/${s3:prefix}/*", "arn:aws:s3:::home//x"));
  EXPECT_TRUE(allows("arn:aws:s3:::home/${s3:prefix, 'any'}/*", "arn:aws:s3:::home/any/x"));
  EXPECT_TRUE(allows("arn:aws:s3:::b/a${*}b", "arn:aws:s3:::b/a*b"));
  EXPECT_FALSE(allows("arn:aws:s3:::b/a${*}b", "arn:aws:s3:::b/axb"));
  EXPECT_TRUE(allows("arn:aws:s3::*:b/k", "arn:aws:s3:::b/k"));
}

TEST(PolicyEvaluate, VariablesAreTextInTheOldVersion) {
  const Principal user = user_of(alice, "ann");
  const auto policy =
      parsed(R"({"Statement":{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::home/${aws:username}"}})",
             PolicyKind::identity);
  EXPECT_EQ(evaluate(*policy, {&user, "s3:GetObject", "arn:aws:s3:::home/ann", nullptr}), Effect::none);
  EXPECT_EQ(evaluate(*policy, {&user, "s3:GetObject", "arn:aws:s3:::home/${aws:username}", nullptr}), Effect::allow);
}

TEST(PolicyCondition, Strings) {
  const MapFacts facts{{"s3:prefix", {"home/ann"}}};
  EXPECT_TRUE(holds(R"({"StringEquals":{"s3:prefix":["x","home/ann"]}})", facts));
  EXPECT_FALSE(holds(R"({"StringEquals":{"s3:prefix":"home/*"}})", facts));
  EXPECT_TRUE(holds(R"({"StringLike":{"s3:Prefix":"home/*"}})", facts));
  EXPECT_TRUE(holds(R"({"StringEqualsIgnoreCase":{"s3:prefix":"HOME/ann"}})", facts));
  EXPECT_FALSE(holds(R"({"StringNotEquals":{"s3:prefix":["x","home/ann"]}})", facts));
  EXPECT_TRUE(holds(R"({"StringNotLike":{"s3:prefix":["x","y*"]}})", facts));
  const Principal user = user_of(alice, "ann");
  EXPECT_TRUE(holds(R"({"StringLike":{"s3:prefix":"*/${aws:username}"}})", facts, &user));
  EXPECT_FALSE(holds(R"({"StringLike":{"s3:prefix":"*/${aws:username}"}})", facts));
}

TEST(PolicyCondition, AbsentKeys) {
  const MapFacts none{};
  EXPECT_FALSE(holds(R"({"StringEquals":{"s3:prefix":"a"}})", none));
  EXPECT_TRUE(holds(R"({"StringNotEquals":{"s3:prefix":"a"}})", none));
  EXPECT_TRUE(holds(R"({"StringEqualsIfExists":{"s3:prefix":"a"}})", none));
  EXPECT_TRUE(holds(R"({"Null":{"s3:prefix":"true"}})", none));
  EXPECT_FALSE(holds(R"({"Null":{"s3:prefix":false}})", none));
  EXPECT_TRUE(holds(R"({"Null":{"s3:prefix":"false"}})", MapFacts{{"s3:prefix", {""}}}));
}

TEST(PolicyCondition, SetsOfValues) {
  const MapFacts ab{{"s3:requestobjecttagkeys", {"a", "b"}}}, none{};
  EXPECT_TRUE(holds(R"({"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["a","b","c"]}})", ab));
  EXPECT_FALSE(holds(R"({"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["a"]}})", ab));
  EXPECT_TRUE(holds(R"({"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["a"]}})", none));
  EXPECT_TRUE(holds(R"({"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":["b","z"]}})", ab));
  EXPECT_FALSE(holds(R"({"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":["z"]}})", ab));
  EXPECT_FALSE(holds(R"({"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":["a"]}})", none));
  EXPECT_TRUE(holds(R"({"ForAnyValue:StringNotEquals":{"s3:RequestObjectTagKeys":["a"]}})", ab));
  EXPECT_FALSE(holds(R"({"ForAllValues:StringNotEquals":{"s3:RequestObjectTagKeys":["a"]}})", ab));
}

TEST(PolicyCondition, NumbersDatesAndFlags) {
  const MapFacts facts{{"s3:max-keys", {"10"}},
                       {"aws:currenttime", {"2026-03-01T12:00:00Z"}},
                       {"aws:epochtime", {"1772366400"}},
                       {"aws:securetransport", {"false"}}};
  EXPECT_TRUE(holds(R"({"NumericLessThanEquals":{"s3:max-keys":10}})", facts));
  EXPECT_FALSE(holds(R"({"NumericLessThan":{"s3:max-keys":"10"}})", facts));
  EXPECT_TRUE(holds(R"({"NumericGreaterThan":{"s3:max-keys":"9.5"}})", facts));
  EXPECT_TRUE(holds(R"({"NumericNotEquals":{"s3:max-keys":11}})", facts));
  EXPECT_TRUE(holds(R"({"DateGreaterThan":{"aws:CurrentTime":"2026-03-01T12:59:59+01:00"}})", facts));
  EXPECT_FALSE(holds(R"({"DateGreaterThan":{"aws:CurrentTime":"2026-03-01T12:00:00.5Z"}})", facts));
  EXPECT_TRUE(holds(R"({"DateEquals":{"aws:EpochTime":"2026-03-01T12:00Z"}})", facts));
  EXPECT_TRUE(holds(R"({"NumericEquals":{"aws:EpochTime":"1772366400"}})", facts));
  EXPECT_TRUE(holds(R"({"Bool":{"aws:SecureTransport":false}})", facts));
  EXPECT_FALSE(holds(R"({"Bool":{"aws:SecureTransport":"true"}})", facts));
}

TEST(PolicyCondition, AddressesAndArns) {
  const auto from = [](std::string ip) { return MapFacts{{"aws:sourceip", {std::move(ip)}}}; };
  EXPECT_TRUE(holds(R"({"IpAddress":{"aws:SourceIp":["192.0.2.0/24","10.1.0.0/15"]}})", from("10.0.255.1")));
  EXPECT_FALSE(holds(R"({"IpAddress":{"aws:SourceIp":"10.2.0.0/15"}})", from("10.1.0.1")));
  EXPECT_TRUE(holds(R"({"IpAddress":{"aws:SourceIp":"10.0.0.1"}})", from("::ffff:10.0.0.1")));
  EXPECT_TRUE(holds(R"({"IpAddress":{"aws:SourceIp":"2001:db8::/33"}})", from("2001:db8:7fff::1")));
  EXPECT_FALSE(holds(R"({"IpAddress":{"aws:SourceIp":"2001:db8::/33"}})", from("2001:db8:8000::1")));
  EXPECT_FALSE(holds(R"({"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}})", from("::1")));
  EXPECT_TRUE(holds(R"({"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}})", from("11.0.0.1")));
  const Principal user = user_of(alice, "ann");
  EXPECT_TRUE(holds(R"({"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/a*"}})", MapFacts{}, &user));
  EXPECT_FALSE(holds(R"({"ArnEquals":{"aws:PrincipalArn":"arn:aws:*:user/ann:*:*:*"}})", MapFacts{}, &user));
  EXPECT_TRUE(holds(R"({"ArnNotEquals":{"aws:PrincipalArn":"arn:aws:iam::1:root"}})", MapFacts{}, &user));
  const Principal session = session_of(alice, "reader", "job");
  EXPECT_TRUE(
      holds(R"({"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::111111111111:role/reader"}})", MapFacts{}, &session));
  EXPECT_TRUE(holds(R"({"StringEquals":{"aws:PrincipalType":"AssumedRole"}})", MapFacts{}, &session));
  EXPECT_TRUE(holds(R"({"BinaryEquals":{"s3:prefix":"aGk="}})", MapFacts{{"s3:prefix", {"aGk="}}}));
}

TEST(PolicyEvaluate, WhatTakesTooLongToDecideIsDenied) {
  const Principal root = root_of(alice);
  // Each "*" may begin anywhere, and each beginning compares a long text that differs at its end.
  const std::string agent(60'000, 'a');
  const MapFacts facts{{"aws:useragent", {agent}}};
  const auto decided = [&](const std::string& effect, const std::string& op, const std::string& pattern) {
    const auto policy =
        resource(R"({"Effect":")" + effect + R"(","Principal":"*","Action":"s3:*","Resource":"*","Condition":{")" + op +
                 R"(":{"aws:UserAgent":")" + pattern + R"("}}})");
    return decide({&root, "s3:GetObject", "arn:aws:s3:::b/k", &facts},
                  {.policy = policy.get(), .owner = alice->canonical_id});
  };
  const std::string slow = "*" + std::string(1000, 'a') + "?b";
  for (const char* effect : {"Allow", "Deny"}) {
    for (const char* op : {"StringLike", "StringNotLike"}) {
      EXPECT_EQ(decided(effect, op, slow), Decision::denied) << effect << op;
    }
  }
  // A run of "?" is one step, and common patterns on long values are far from the bound.
  EXPECT_EQ(decided("Deny", "StringLike", "*" + std::string(5000, '?') + "b"), Decision::allowed);
  EXPECT_EQ(decided("Deny", "StringLike", "???*"), Decision::denied);
  EXPECT_EQ(decided("Deny", "StringLike", "*Mozilla*"), Decision::allowed);
  // Variables are filled in within the bound, too.
  std::string filled;
  for (int i = 0; i < 500; ++i) filled += "${aws:UserAgent}";
  EXPECT_EQ(decided("Allow", "StringLike", filled), Decision::denied);
}

TEST(PolicyEvaluate, RunsOfQuestionMarksCount) {
  const auto like = [](const std::string& pattern) {
    return holds(R"({"StringLike":{"s3:prefix":")" + pattern + R"("}})", MapFacts{{"s3:prefix", {"abcd"}}});
  };
  EXPECT_TRUE(like("????"));
  EXPECT_FALSE(like("???"));
  EXPECT_FALSE(like("?????"));
  EXPECT_TRUE(like("a??d"));
  EXPECT_TRUE(like("*???"));
  EXPECT_TRUE(like("?*??"));
}

// One question took milliseconds, at the choice of the policy's author.
TEST(PolicyWork, IsBoundedAndALongPlainPolicyIsFarBelow) {
  const std::string key(900, 'a');
  std::string costly, plain;
  for (int i = 0; i < 8; ++i) {
    costly += costly.empty() ? "\"" : ",\"";
    costly += "arn:aws:s3:::photos/*";
    for (int j = 0; j < 30; ++j) costly += "a?";
    costly += "b" + std::to_string(i) + "\"";
  }
  for (int i = 0; i < 480; ++i) plain += "\"arn:aws:s3:::photos/" + std::to_string(i) + "/*\",";
  const auto answer = [&](const std::string& resources) {
    const auto policy = resource(R"({"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":[)" +
                                 resources + R"(,"arn:aws:s3:::photos/a*"]})");
    const std::string arn = "arn:aws:s3:::photos/" + key;
    return evaluate_resource(*policy, Question{nullptr, "s3:GetObject", arn, nullptr});
  };
  EXPECT_TRUE(answer(costly).denied);
  const auto of_plain = answer(plain.substr(0, plain.size() - 1));
  EXPECT_FALSE(of_plain.denied);
  EXPECT_NE(of_plain.allowed, Reach::none);
}

TEST(PolicyPublic, AsAwsDefinesIt) {
  const auto with = [](const std::string& rest) {
    return is_public(*resource(R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"*",)" + rest + "}"));
  };
  EXPECT_TRUE(with(R"("Principal":"*")"));
  EXPECT_TRUE(with(R"("Principal":{"AWS":["1","*"]})"));
  EXPECT_FALSE(with(R"("Principal":{"AWS":"arn:aws:iam::111111111111:root"})"));
  EXPECT_FALSE(with(R"("Principal":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/32"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"IpAddress":{"aws:SourceIp":"0.0.0.0/1"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/32"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"StringEquals":{"aws:Referer":"x"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"StringLike":{"aws:SourceVpc":"vpc-*"}})"));
  EXPECT_FALSE(with(R"("Principal":"*","Condition":{"StringEquals":{"aws:SourceVpc":"vpc-1"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"StringEqualsIfExists":{"aws:SourceVpc":"vpc-1"}})"));
  EXPECT_FALSE(with(R"("Principal":"*","Condition":{"StringEquals":{"aws:userid":"AIDA1"}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"StringEquals":{"aws:userid":["AIDA1","anonymous"]}})"));
  EXPECT_TRUE(with(R"("Principal":"*","Condition":{"StringEqualsIgnoreCase":{"aws:userid":"Anonymous"}})"));
  EXPECT_FALSE(is_public(*resource(R"({"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"})")));
}

TEST(PolicyBucket, ResourcesMustLieInTheBucket) {
  const auto concerns = [](const std::string& arn) {
    return concerns_only(*resource(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":")" + arn + "\"}"),
                         "photos");
  };
  EXPECT_TRUE(concerns("arn:aws:s3:::photos"));
  EXPECT_TRUE(concerns("arn:aws:s3:::photos/a/*"));
  EXPECT_TRUE(concerns("arn:aws:s3:::photos*"));
  EXPECT_TRUE(concerns("arn:aws:s3::*:photos/*"));
  EXPECT_FALSE(concerns("arn:aws:s3:::photos2/*"));
  EXPECT_TRUE(concerns("arn:aws:s3:::*/*"));
  EXPECT_FALSE(concerns("arn:aws:s3:::video*"));
  EXPECT_FALSE(concerns("*"));
}

TEST(Federated, ATrustPolicyLetsInWhomItNamesAndNobodyByEveryone) {
  const std::string arn = "arn:aws:iam::111111111111:oidc-provider/idp.example.org/r";
  Principal provider;
  provider.kind = Principal::Kind::federated;
  provider.account = alice;
  provider.arn = arn;
  const auto effect = [&](const std::string& principal, const std::string& more = "", const char* says = "Allow") {
    const auto trust = parsed(R"({"Statement":{"Effect":")" + std::string(says) + R"(","Action":"sts:*","Principal":)" +
                                  principal + more + "}}",
                              PolicyKind::trust);
    const MapFacts facts{{"idp.example.org/r:sub", {"someone"}}};
    return evaluate_resource(*trust, {&provider, "sts:AssumeRoleWithWebIdentity", "arn:aws:iam::1:role/r", &facts});
  };
  const auto lets_in = [&](const std::string& principal, const std::string& more = "") {
    return effect(principal, more).allowed >= Reach::principal;
  };
  EXPECT_TRUE(lets_in(R"({"Federated":")" + arn + "\"}"));
  EXPECT_TRUE(lets_in(R"({"Federated":["cognito-identity.amazonaws.com",")" + arn + "\"]}"));
  EXPECT_TRUE(lets_in(R"({"Federated":")" + arn + "\"}",
                      R"(,"Condition":{"StringEquals":{"IDP.example.org/r:sub":"someone"}})"));
  EXPECT_FALSE(lets_in(R"({"Federated":")" + arn + "\"}",
                       R"(,"Condition":{"StringEquals":{"idp.example.org/r:sub":"another"}})"));
  for (const std::string& other :
       {std::string("\"*\""), std::string(R"({"AWS":"*"})"), std::string(R"({"AWS":"111111111111"})"),
        std::string(R"({"AWS":"arn:aws:iam::111111111111:root"})"), std::string(R"({"Federated":"*"})"),
        R"({"Federated":")" + arn + "x\"}",
        std::string(R"({"AWS":"arn:aws:iam::111111111111:user/idp.example.org/r"})")}) {
    EXPECT_FALSE(lets_in(other)) << other;
  }
  EXPECT_TRUE(effect("\"*\"", "", "Deny").denied) << "a denial of everyone is one of them, too";
  // A Principal that names a provider names no caller with a key.
  const Principal user = user_of(alice, "u");
  const auto trust =
      parsed(R"({"Statement":{"Effect":"Allow","Action":"sts:*","Principal":{"Federated":")" + arn + "\"}}}",
             PolicyKind::trust);
  EXPECT_EQ(evaluate_resource(*trust, {&user, "sts:AssumeRole", "r", nullptr}).allowed, Reach::none);
}

TEST(Attributes, WhatAProviderSaidIsAskedForLast) {
  Principal session = session_of(alice, "role", "job");
  auto attributes = std::make_shared<Attributes>();
  attributes->tags = {{"Team", "red"}};
  attributes->source_identity = "someone";
  attributes->claims = {{"idp.example.org/r:sub", {"s1"}}, {"aws:sourceip", {"10.0.0.1"}}, {"aws:userid", {"root"}}};
  session.attributes = attributes;
  const MapFacts facts{{"aws:sourceip", {"192.0.2.1"}}};
  const auto holds = [&](const std::string& condition) {
    const auto policy =
        parsed(R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*",)"
               R"("Condition":{"StringEquals":{)" +
                   condition + "}}}}",
               PolicyKind::identity);
    return evaluate(*policy, {&session, "s3:GetObject", "arn:aws:s3:::b/k", &facts}) == Effect::allow;
  };
  EXPECT_TRUE(holds(R"("aws:PrincipalTag/Team":"red")") && holds(R"("AWS:principaltag/TEAM":"red")"));
  EXPECT_TRUE(holds(R"("aws:SourceIdentity":"someone")") && holds(R"("idp.example.org/r:sub":"s1")"));
  EXPECT_TRUE(holds(R"("idp.example.org/r:sub":"${idp.example.org/r:sub}")"));
  EXPECT_FALSE(holds(R"("aws:PrincipalTag/Other":"red")") || holds(R"("aws:SourceIp":"10.0.0.1")"));
  EXPECT_FALSE(holds(R"("aws:userid":"root")"));
  session.attributes = nullptr;
  EXPECT_FALSE(holds(R"("aws:PrincipalTag/Team":"red")"));
}

}  // namespace
}  // namespace verbena::auth
