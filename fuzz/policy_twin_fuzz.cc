// The policy evaluator against its literal twin (auth/test_literal_policy.h): the input's bytes choose a caller, a
// request and the policies around it, all of a small world, so that coincidences are frequent. Any other decision than
// the twin's ends the fuzzer.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "auth/test_literal_policy.h"

namespace {

using verbena::auth::literal::World;
using Json = nlohmann::json;
using Words = std::span<const char* const>;

constexpr auto accounts = std::to_array({"111111111111", "222222222222"});
constexpr auto actions = std::to_array({"s3:GetObject", "s3:PutObject", "s3:ListBucket"});
constexpr auto action_patterns = std::to_array({"s3:GetObject", "s3:Get*", "s3:*", "*", "s3:PutObject", "s3:?etObject",
                                                "S3:getobject", "s3:*t*Object", "s3:List*t"});
constexpr auto resources = std::to_array(
    {"arn:aws:s3:::b", "arn:aws:s3:::b/a", "arn:aws:s3:::b/a/b", "arn:aws:s3:::b/ann/x", "arn:aws:s3:::b/"});
constexpr auto resource_patterns = std::to_array(
    {"*", "arn:aws:s3:::b/*", "arn:aws:s3:::b", "arn:aws:s3:::b/a?b", "arn:aws:s3:::*a", "arn:aws:s3:::b/a*",
     "arn:aws:s3:::b/${aws:username}/*", "arn:aws:s3:::?/*/?", "arn:aws:s3:::*", "arn:aws:s3:::b**"});
constexpr auto prefixes = std::to_array({"home", "xy", "", "HOME", "ann"});
constexpr auto prefix_patterns = std::to_array({"home", "h*", "x?", "*", "", "${aws:username}", "Home", "?*e"});
constexpr auto addresses = std::to_array({"10.1.2.3", "192.0.2.9", "203.0.113.1"});
constexpr auto ranges = std::to_array({"10.0.0.0/8", "192.0.2.0/24"});
constexpr auto numbers = std::to_array({"0", "1", "-1", "1000"});
constexpr auto dates = std::to_array({"2026-01-01T00:00:00Z", "2026-03-01T12:00:00Z", "2030-01-01T00:00:00Z"});
constexpr auto booleans = std::to_array({"true", "false"});
constexpr auto tag_keys = std::to_array({"a", "b", "ab", ""});
constexpr auto tag_patterns = std::to_array({"a", "b", "a*", "?", "*"});
constexpr auto arns = std::to_array({"arn:aws:s3:::b", "arn:aws:sns:eu:111111111111:t", "arn:aws:s3:::b:c", "no-arn"});
constexpr auto arn_patterns =
    std::to_array({"arn:aws:s3:::b", "arn:aws:*:*:*:*", "arn:aws:sns:*:1*:t", "arn:*:s3:::b*"});

constexpr auto text_operators =
    std::to_array({"StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "StringEqualsIgnoreCase",
                   "StringNotEqualsIgnoreCase", "StringEqualsIfExists", "StringNotLikeIfExists", "StringLikeIfExists"});
constexpr auto address_operators =
    std::to_array({"IpAddress", "NotIpAddress", "IpAddressIfExists", "NotIpAddressIfExists"});
constexpr auto number_operators = std::to_array(
    {"NumericEquals", "NumericNotEquals", "NumericLessThan", "NumericLessThanEquals", "NumericGreaterThan",
     "NumericGreaterThanEquals", "NumericLessThanIfExists", "NumericNotEqualsIfExists"});
constexpr auto date_operators = std::to_array({"DateEquals", "DateNotEquals", "DateLessThan", "DateLessThanEquals",
                                               "DateGreaterThan", "DateGreaterThanEquals", "DateGreaterThanIfExists"});
constexpr auto boolean_operators = std::to_array({"Bool", "BoolIfExists"});
constexpr auto set_operators = std::to_array(
    {"ForAllValues:StringEquals", "ForAnyValue:StringEquals", "ForAllValues:StringLike", "ForAnyValue:StringLike",
     "ForAllValues:StringNotEquals", "ForAnyValue:StringNotEquals", "ForAnyValue:StringNotLike",
     "ForAllValues:StringEqualsIfExists", "ForAnyValue:StringEqualsIfExists", "ForAnyValue:StringNotEqualsIfExists"});
constexpr auto arn_operators = std::to_array({"ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike", "ArnLikeIfExists"});

struct Kind {
  const char* key;
  Words operators, operands, facts;
};
constexpr std::array<Kind, 7> kinds = {{
    {"s3:prefix", text_operators, prefix_patterns, prefixes},
    {"aws:SourceIp", address_operators, ranges, addresses},
    {"s3:max-keys", number_operators, numbers, numbers},
    {"aws:CurrentTime", date_operators, dates, dates},
    {"aws:SecureTransport", boolean_operators, booleans, booleans},
    {"s3:RequestObjectTagKeys", set_operators, tag_patterns, tag_keys},
    {"aws:SourceArn", arn_operators, arn_patterns, arns},
}};
constexpr size_t sets = 5;  // of them: the key with several values

class Maker {
 public:
  Maker(const uint8_t* data, size_t size) : bytes_(data, size) {}

  World world() {
    World out;
    out.bucket_owner = one(accounts);
    static constexpr auto callers = std::to_array({"", "root", "user", "role"});
    out.asker.kind = one(callers);
    out.asker.account = one(accounts);
    out.asker.name = out.asker.kind == "role" ? "reader" : chance(50) ? "ann" : "bob";
    out.asker.session = chance(50) ? "job" : "other";
    out.action = one(actions);
    out.resource = one(resources);
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (!chance(60)) continue;
      auto& values = out.facts[kinds[i].key];
      values = {one(kinds[i].facts)};
      while (i == sets && values.size() < 4 && chance(50)) values.push_back(one(kinds[i].facts));
    }
    if (chance(80)) out.bucket = policy(true);
    const bool has_policies = out.asker.kind == "user" || out.asker.kind == "role";
    if (has_policies && chance(75)) out.identity.push_back(policy(false));
    if (has_policies && chance(20)) out.identity.push_back(policy(false));
    if (out.asker.kind == "role" && chance(40)) out.session.push_back(policy(false));
    return out;
  }

 private:
  std::string one(Words from) { return from[bytes_.ConsumeIntegralInRange<size_t>(0, from.size() - 1)]; }
  bool chance(int percent) { return bytes_.ConsumeIntegralInRange<int>(0, 99) >= 100 - percent; }

  Json some(Words from) {
    Json list = Json::array({one(from)});
    while (list.size() < 4 && chance(30)) list.push_back(one(from));
    return list;
  }

  Json principals() {
    Json list = Json::array();
    do {
      const std::string account = one(accounts);
      const auto forms = std::to_array<std::string>(
          {"*", account, "arn:aws:iam::" + account + ":root", "arn:aws:iam::" + account + ":user/ann",
           "arn:aws:iam::" + account + ":role/reader", "arn:aws:sts::" + account + ":assumed-role/reader/job"});
      list.push_back(forms[bytes_.ConsumeIntegralInRange<size_t>(0, forms.size() - 1)]);
    } while (list.size() < 3 && chance(30));
    return {{"AWS", list}};
  }

  Json statement(bool of_bucket) {
    Json out;
    out["Effect"] = chance(70) ? "Allow" : "Deny";
    out[chance(85) ? "Action" : "NotAction"] = some(action_patterns);
    out[chance(85) ? "Resource" : "NotResource"] = some(resource_patterns);
    if (of_bucket) {
      const bool negated = out["Effect"] == "Deny" && chance(30);
      out[negated ? "NotPrincipal" : "Principal"] = principals();
    }
    for (int i = 0; i < 3 && chance(40); ++i) {
      const Kind& kind = kinds[bytes_.ConsumeIntegralInRange<size_t>(0, kinds.size() - 1)];
      if (chance(15)) {
        out["Condition"]["Null"][kind.key] = some(booleans);
      } else {
        out["Condition"][one(kind.operators)][kind.key] = some(kind.operands);
      }
    }
    return out;
  }

  Json policy(bool of_bucket) {
    Json out = {{"Version", "2012-10-17"}, {"Statement", Json::array()}};
    do out["Statement"].push_back(statement(of_bucket));
    while (out["Statement"].size() < 4 && chance(40));
    return out;
  }

  FuzzedDataProvider bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const World world = Maker(data, size).world();
  const auto judged = judge_by_evaluator(world);
  const auto expected = decide_literally(world);
  // What an early look excludes is not allowed later. That look is at objects.
  const bool excluded = judged && !judged->could_be_allowed && world.resource != "arn:aws:s3:::b";
  if (judged && judged->decision == expected && !(excluded && expected == verbena::auth::Decision::allowed)) return 0;
  std::fprintf(stderr, "%s\nbucket %s\nidentity %s\nsession %s\nfacts %s\n%s of %s, bucket of %s: %s %s\n",
               judged ? "the evaluator decides otherwise" : "a policy is refused",
               world.bucket ? world.bucket->dump().c_str() : "none", Json(world.identity).dump().c_str(),
               Json(world.session).dump().c_str(), Json(world.facts).dump().c_str(), world.asker.kind.c_str(),
               world.asker.account.c_str(), world.bucket_owner.c_str(), world.action.c_str(), world.resource.c_str());
  std::abort();
}
