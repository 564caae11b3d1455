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

// What a policy is attached to. A resource policy (of a bucket) names principals in each statement, an identity policy
// (of a user, group or session) must not; a trust policy (of a role) names principals and no resources.
enum class PolicyKind : uint8_t { identity, resource, trust };

inline constexpr size_t policy_bytes_max = 20 * 1024;  // AWS's limit of a bucket policy, the largest there is

// Errors: malformed_policy, whose context says what is wrong; too_large.
Result<PolicyPtr> parse_policy(std::string_view json, PolicyKind kind);

using FactValues = std::vector<std::string>;

// What a request is like: the values behind condition keys and policy variables. Keys of the principal (aws:username,
// aws:userid, aws:PrincipalArn, ...) are answered by the evaluator itself.
class Facts {
 public:
  virtual ~Facts() = default;
  // Adds the values of `key` to `values`. `key` is in lower case, but for what follows a '/' (a tag's key). False when
  // the request has no such key.
  virtual bool find(std::string_view key, FactValues& values) const = 0;
};

struct Question {
  const Principal* principal = nullptr;  // null: anonymous
  std::string_view action;               // "s3:GetObject"
  std::string_view resource;             // "arn:aws:s3:::bucket/key"
  const Facts* facts = nullptr;          // null: there are none
};

enum class Effect : uint8_t { none, allow, deny };

// What this identity or session policy says, on its own.
Effect evaluate(const Policy& policy, const Question& question);

// How directly an allowance reaches who asks: `account` gives it to the account, which passes it on by its own
// policies; `principal` names the user or role, or everyone; `session` names the very session.
enum class Reach : uint8_t { none, account, principal, session };

struct ResourceEffect {
  bool denied = false;
  Reach allowed = Reach::none;
};

// What this resource or trust policy says to who asks, on its own.
ResourceEffect evaluate_resource(const Policy& policy, const Question& question);

// What stands on the side of the resource.
struct Resource {
  const Policy* policy = nullptr;  // null: none
  std::string_view owner;          // canonical id of the account that the resource belongs to; empty: no one's
  Reach granted = Reach::none;     // what an access control list gives
  bool own_account_only = false;   // the policy allows nothing to those outside of the owner's account
  bool allows = true;              // false: the policy's allowances do not count here, its denials do
};

enum class Decision : uint8_t {
  allowed,
  refused,  // no one allowed it
  denied,   // some policy denies it
};

// All policies together, by AWS's evaluation logic: a denial anywhere decides; within the owner's account one allowance
// is enough; across accounts both sides must allow; a session never gets more than its session policies allow. An
// account's root needs no identity policy. The superuser counts as the root of every account.
// What cannot be decided in bounded time (long header values against many wildcards) is denied.
Decision decide(const Question& question, const Resource& resource);

// Whether some allowance could reach who asks, whatever conditions and denials say: those may look at what has not come
// yet. `bucket`: not the question's resource, but any object of this bucket; empty: the question's.
bool could_allow(const Question& question, const Resource& resource, std::string_view bucket);

// Whether the policy gives access to the public, as GetBucketPolicyStatus and the public access block mean it.
bool is_public(const Policy& policy);

// Whether each of the policy's resources can be `bucket` or lie in it, as a bucket policy must have it.
bool concerns_only(const Policy& policy, std::string_view bucket);

// Whether each action of a bucket policy is one on some resource of its statement: a bucket's action on a bucket, an
// object's on objects (AWS: "Action does not apply to any resource(s) in statement"). NotAction and NotResource name
// none. Asked when a policy is set: those that were kept before are evaluated as they stand.
bool actions_apply(const Policy& policy);

// The text that was parsed.
const std::string& policy_text(const Policy& policy);

}  // namespace verbena::auth
