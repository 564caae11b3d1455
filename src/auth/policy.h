// Policies in the language of AWS IAM: parsed once, evaluated per request in microseconds.
// Sources: AWS IAM User Guide, "IAM JSON policy reference" and "Policy evaluation logic"; Amazon S3 User Guide, "The
// meaning of public".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::auth {

struct Principal;
class Policy;
using PolicyPtr = std::shared_ptr<const Policy>;

// The kind of object that a policy is attached to. A resource policy (of a bucket) names principals in each statement,
// an identity policy (of a user, group or session) must not; a trust policy (of a role) names principals and no
// resources.
enum class PolicyKind : uint8_t { identity, resource, trust };

inline constexpr size_t policy_bytes_max = 20 * 1024;  // AWS's limit of a bucket policy, the largest there is

// Errors: malformed_policy, with the reason as its context; too_large.
Result<PolicyPtr> parse_policy(std::string_view json, PolicyKind kind);

using FactValues = std::vector<std::string>;

// The facts of a request: the values of condition keys and policy variables. The evaluator itself supplies keys of the
// principal (aws:username, aws:userid, aws:PrincipalArn, ...).
class Facts {
 public:
  virtual ~Facts() = default;
  // Adds the values of `key` to `values`. `key` is in lower case, except after a '/' (a tag's key). False when the
  // request has no such key.
  virtual bool find(std::string_view key, FactValues& values) const = 0;
};

struct Question {
  const Principal* principal = nullptr;  // null: anonymous
  std::string_view action;               // "s3:GetObject"
  std::string_view resource;             // "arn:aws:s3:::bucket/key"
  const Facts* facts = nullptr;          // null: none
};

enum class Effect : uint8_t { none, allow, deny };

// The effect of this identity or session policy alone.
Effect evaluate(const Policy& policy, const Question& question);

// How directly an allowance applies to the caller: `account` gives it to the account, which delegates it by its own
// policies; `principal` names the user or role, or everyone; `session` names the very session.
enum class Reach : uint8_t { none, account, principal, session };

struct ResourceEffect {
  bool denied = false;
  Reach allowed = Reach::none;
};

// The effect of this resource or trust policy on the caller, alone.
ResourceEffect evaluate_resource(const Policy& policy, const Question& question);

// The resource's side of the decision.
struct Resource {
  const Policy* policy = nullptr;  // null: none
  std::string_view owner;          // canonical id of the account that the resource belongs to; empty: none
  Reach granted = Reach::none;     // by an access control list
  bool own_account_only = false;   // the policy grants nothing outside of the owner's account
  bool allows = true;              // false: the policy's denials count, its allowances do not
};

enum class Decision : uint8_t {
  allowed,
  refused,  // not allowed by any policy
  denied,   // some policy denies it
};

// All policies together, by AWS's evaluation logic: a denial anywhere decides; within the owner's account one allowance
// is enough; across accounts both sides must allow; a session never gets more than its session policies allow. An
// account's root needs no identity policy. The superuser counts as the root of every account.
// A question that cannot be decided in bounded time (long header values against many wildcards) is denied.
Decision decide(const Question& question, const Resource& resource);

// Whether an allowance could apply to the caller, whatever conditions and denials there are: those may depend on parts
// of the request not received yet. `bucket`: not the question's resource, but any object of this bucket; empty: the
// question's.
bool could_allow(const Question& question, const Resource& resource, std::string_view bucket);

// Whether the policy gives access to the public, as GetBucketPolicyStatus and the public access block mean it.
bool is_public(const Policy& policy);

// Whether each of the policy's resources can be `bucket` or an object in it, as required for a bucket policy.
bool concerns_only(const Policy& policy, std::string_view bucket);

// Whether each action of a bucket policy applies to some resource of its statement: a bucket's action to a bucket, an
// object's to objects (AWS: "Action does not apply to any resource(s) in statement"). NotAction and NotResource name
// none. Checked when a policy is set: policies stored before are evaluated unchanged.
bool actions_apply(const Policy& policy);

// The parsed text.
const std::string& policy_text(const Policy& policy);

}  // namespace verbena::auth
