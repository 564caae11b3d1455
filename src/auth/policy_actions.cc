#include "auth/policy_actions.h"

#include <algorithm>
#include <span>

#include "auth/policy_pattern.h"
#include "auth/policy_statement.h"

namespace verbena::auth {
namespace {

// The resource of an action, as in a policy's Resource. other: an account, an access point, a job.
enum class On : uint8_t { bucket, object, other };

struct ActionName {
  std::string_view name;
  On on;
};

// Source: AWS Service Authorization Reference, "Actions, resources, and condition keys for Amazon S3".
constexpr ActionName s3_actions[] = {
    {"AbortMultipartUpload", On::object},
    {"BypassGovernanceRetention", On::object},
    {"CreateAccessPoint", On::other},
    {"CreateBucket", On::bucket},
    {"CreateJob", On::other},
    {"DeleteAccessPoint", On::other},
    {"DeleteBucket", On::bucket},
    {"DeleteBucketOwnershipControls", On::bucket},
    {"DeleteBucketPolicy", On::bucket},
    {"DeleteBucketWebsite", On::bucket},
    {"DeleteObject", On::object},
    {"DeleteObjectTagging", On::object},
    {"DeleteObjectVersion", On::object},
    {"DeleteObjectVersionTagging", On::object},
    {"DescribeJob", On::other},
    {"GetAccelerateConfiguration", On::bucket},
    {"GetAccessPoint", On::other},
    {"GetAccountPublicAccessBlock", On::other},
    {"GetAnalyticsConfiguration", On::bucket},
    {"GetBucketAcl", On::bucket},
    {"GetBucketCORS", On::bucket},
    {"GetBucketLocation", On::bucket},
    {"GetBucketLogging", On::bucket},
    {"GetBucketNotification", On::bucket},
    {"GetBucketObjectLockConfiguration", On::bucket},
    {"GetBucketOwnershipControls", On::bucket},
    {"GetBucketPolicy", On::bucket},
    {"GetBucketPolicyStatus", On::bucket},
    {"GetBucketPublicAccessBlock", On::bucket},
    {"GetBucketRequestPayment", On::bucket},
    {"GetBucketTagging", On::bucket},
    {"GetBucketVersioning", On::bucket},
    {"GetBucketWebsite", On::bucket},
    {"GetEncryptionConfiguration", On::bucket},
    {"GetIntelligentTieringConfiguration", On::bucket},
    {"GetInventoryConfiguration", On::bucket},
    {"GetLifecycleConfiguration", On::bucket},
    {"GetMetricsConfiguration", On::bucket},
    {"GetObject", On::object},
    {"GetObjectAcl", On::object},
    {"GetObjectAttributes", On::object},
    {"GetObjectLegalHold", On::object},
    {"GetObjectRetention", On::object},
    {"GetObjectTagging", On::object},
    {"GetObjectTorrent", On::object},
    {"GetObjectVersion", On::object},
    {"GetObjectVersionAcl", On::object},
    {"GetObjectVersionAttributes", On::object},
    {"GetObjectVersionForReplication", On::object},
    {"GetObjectVersionTagging", On::object},
    {"GetObjectVersionTorrent", On::object},
    {"GetReplicationConfiguration", On::bucket},
    {"InitiateReplication", On::object},
    {"ListAccessPoints", On::other},
    {"ListAllMyBuckets", On::other},
    {"ListBucket", On::bucket},
    {"ListBucketMultipartUploads", On::bucket},
    {"ListBucketVersions", On::bucket},
    {"ListJobs", On::other},
    {"ListMultipartUploadParts", On::object},
    {"ListTagsForResource", On::bucket},
    {"ObjectOwnerOverrideToBucketOwner", On::object},
    {"PutAccelerateConfiguration", On::bucket},
    {"PutAccountPublicAccessBlock", On::other},
    {"PutAnalyticsConfiguration", On::bucket},
    {"PutBucketAcl", On::bucket},
    {"PutBucketCORS", On::bucket},
    {"PutBucketLogging", On::bucket},
    {"PutBucketNotification", On::bucket},
    {"PutBucketObjectLockConfiguration", On::bucket},
    {"PutBucketOwnershipControls", On::bucket},
    {"PutBucketPolicy", On::bucket},
    {"PutBucketPublicAccessBlock", On::bucket},
    {"PutBucketRequestPayment", On::bucket},
    {"PutBucketTagging", On::bucket},
    {"PutBucketVersioning", On::bucket},
    {"PutBucketWebsite", On::bucket},
    {"PutEncryptionConfiguration", On::bucket},
    {"PutIntelligentTieringConfiguration", On::bucket},
    {"PutInventoryConfiguration", On::bucket},
    {"PutLifecycleConfiguration", On::bucket},
    {"PutMetricsConfiguration", On::bucket},
    {"PutObject", On::object},
    {"PutObjectAcl", On::object},
    {"PutObjectLegalHold", On::object},
    {"PutObjectRetention", On::object},
    {"PutObjectTagging", On::object},
    {"PutObjectVersionAcl", On::object},
    {"PutObjectVersionTagging", On::object},
    {"PutReplicationConfiguration", On::bucket},
    {"ReplicateDelete", On::object},
    {"ReplicateObject", On::object},
    {"ReplicateTags", On::object},
    {"RestoreObject", On::object},
    {"TagResource", On::bucket},
    {"UntagResource", On::bucket},
    {"UpdateJobPriority", On::other},
    {"UpdateJobStatus", On::other},
    {"CreateSession", On::bucket},
    {"GetStorageLensConfiguration", On::other},
    {"ListStorageLensConfigurations", On::other},
    {"PutStorageLensConfiguration", On::other},
};

// Source: the same, "... for Amazon S3 Express".
constexpr ActionName express_actions[] = {
    {"CreateBucket", On::bucket},
    {"CreateSession", On::bucket},
    {"DeleteBucket", On::bucket},
    {"DeleteBucketPolicy", On::bucket},
    {"GetBucketPolicy", On::bucket},
    {"GetEncryptionConfiguration", On::bucket},
    {"GetLifecycleConfiguration", On::bucket},
    {"ListAllMyDirectoryBuckets", On::other},
    {"ListTagsForResource", On::bucket},
    {"PutBucketPolicy", On::bucket},
    {"PutEncryptionConfiguration", On::bucket},
    {"PutLifecycleConfiguration", On::bucket},
    {"TagResource", On::bucket},
    {"UntagResource", On::bucket},
};

// In lower case. Keys without a value in Verbena count as absent, as in AWS for facts that do not apply.
constexpr std::string_view condition_keys[] = {
    "s3:authtype",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:accesspointnetworkorigin",
    "s3:delimiter",
    "s3:existingobjecttag/",
    "s3:if-match",
    "s3:if-none-match",
    "s3:locationconstraint",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:objectcreationoperation",
    "s3:prefix",
    "s3:requestobjecttag/",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:tlsversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-object-ownership",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
    "s3express:authtype",
    "s3express:locationname",
    "s3express:resourceaccount",
    "s3express:sessionmode",
    "s3express:signatureage",
    "s3express:signatureversion",
    "s3express:tlsversion",
    "s3express:x-amz-content-sha256",
    "s3express:x-amz-server-side-encryption",
    "s3express:x-amz-server-side-encryption-aws-kms-key-id",
    "aws:currenttime",
    "aws:epochtime",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principaltype",
    "aws:referer",
    "aws:resourceaccount",
    "aws:securetransport",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceip",
    "aws:sourceowner",
    "aws:tokenissuetime",
    "aws:userid",
    "aws:username",
    "aws:useragent",
    "aws:requestedregion",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:vpcsourceip",
    "aws:principalorgid",
    "aws:viaawsservice",
    "aws:calledvia",
    "aws:resourcetag/",
    "aws:requesttag/",
    "aws:tagkeys",
    "aws:principaltag/",
    "aws:sourceidentity",
};

bool names(std::string_view known, std::string_view key) {
  return known.ends_with('/') ? key.size() > known.size() && key.starts_with(known) : key == known;
}

bool names_one_of(std::string_view name_pattern, std::span<const ActionName> actions) {
  const auto pattern = Pattern::parse(name_pattern, {.wildcards = true, .variables = false});
  return std::ranges::any_of(actions, [&](const ActionName& action) {
    const Question none;
    Inquiry inquiry(none);
    return pattern->matches(action.name, inquiry, Letters::any_case);
  });
}

// The kinds of resources that a statement can cover, in one bucket.
struct Resources {
  bool bucket = false, object = false;  // of S3
  bool directory = false;               // a bucket of S3 Express; policies do not name its objects
};

Resources resources_of(const Statement& statement) {
  Resources found;
  for (const std::string_view arn : statement.resource_texts) {
    // "arn:PARTITION:SERVICE:REGION:ACCOUNT:NAME": concerns_only() has checked the rest. A key may have colons.
    constexpr std::string_view express = "arn:aws:s3express:", general = "arn:aws:s3:";
    if (arn.starts_with(express)) {
      found.directory = true;
      continue;
    }
    const size_t account = arn.find(':', general.size());
    const size_t path = account == std::string_view::npos ? account : arn.find(':', account + 1);
    if (path == std::string_view::npos) continue;
    const std::string_view name = arn.substr(path + 1);
    const bool below = name.find('/') != std::string_view::npos;
    // A wildcard in a bucket's name also matches across the slash after it.
    found.object |= below || name.find_first_of("*?") != std::string_view::npos;
    found.bucket |= !below;
  }
  return found;
}

bool applies(const Pattern& action, std::string_view service, std::span<const ActionName> names, bool bucket,
             bool object) {
  return std::ranges::any_of(names, [&](const ActionName& one) {
    const bool on_it = (one.on == On::bucket && bucket) || (one.on == On::object && object);
    if (!on_it) return false;
    const Question none;
    Inquiry inquiry(none);
    return action.matches(std::string(service).append(one.name), inquiry, Letters::any_case);
  });
}

}  // namespace

bool is_action_pattern(std::string_view text, PolicyKind kind) {
  if (text == "*") return true;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-*?";
  const std::string low = lower(text);
  if (low.find_first_not_of(allowed, colon + 1) != std::string::npos) return false;
  const std::string_view service = std::string_view(low).substr(0, colon);
  if (service.find_first_not_of(allowed) != std::string_view::npos) return false;
  if (kind == PolicyKind::trust) return service == "sts";
  if (kind != PolicyKind::resource) return true;
  const std::string_view name = text.substr(colon + 1);
  if (service == "s3express") return names_one_of(name, express_actions);
  return service == "s3" && names_one_of(name, s3_actions);
}

bool actions_apply(const Policy& policy) {
  return std::ranges::all_of(policy.statements, [](const Statement& statement) {
    if (statement.not_actions || statement.not_resources) return true;
    const Resources on = resources_of(statement);
    return std::ranges::all_of(statement.actions, [&](const Pattern& action) {
      return applies(action, "s3:", s3_actions, on.bucket, on.object) ||
             applies(action, "s3express:", express_actions, on.directory, false);
    });
  });
}

bool is_condition_key(std::string_view key, PolicyKind kind) {
  const size_t colon = key.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == key.size()) return false;
  if (kind != PolicyKind::resource) return true;
  const std::string normal = normal_key(key);
  const auto known = [&](std::string_view name) { return names(name, normal); };
  return std::ranges::any_of(condition_keys, known);
}

}  // namespace verbena::auth
