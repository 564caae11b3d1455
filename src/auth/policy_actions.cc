#include "auth/policy_actions.h"

#include <algorithm>
#include <span>

#include "auth/policy_pattern.h"

namespace verbena::auth {
namespace {

// Source: AWS Service Authorization Reference, "Actions, resources, and condition keys for Amazon S3".
constexpr std::string_view s3_actions[] = {
    "AbortMultipartUpload",
    "BypassGovernanceRetention",
    "CreateAccessPoint",
    "CreateBucket",
    "CreateJob",
    "DeleteAccessPoint",
    "DeleteBucket",
    "DeleteBucketOwnershipControls",
    "DeleteBucketPolicy",
    "DeleteBucketWebsite",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjectVersion",
    "DeleteObjectVersionTagging",
    "DescribeJob",
    "GetAccelerateConfiguration",
    "GetAccessPoint",
    "GetAccountPublicAccessBlock",
    "GetAnalyticsConfiguration",
    "GetBucketAcl",
    "GetBucketCORS",
    "GetBucketLocation",
    "GetBucketLogging",
    "GetBucketNotification",
    "GetBucketObjectLockConfiguration",
    "GetBucketOwnershipControls",
    "GetBucketPolicy",
    "GetBucketPolicyStatus",
    "GetBucketPublicAccessBlock",
    "GetBucketRequestPayment",
    "GetBucketTagging",
    "GetBucketVersioning",
    "GetBucketWebsite",
    "GetEncryptionConfiguration",
    "GetIntelligentTieringConfiguration",
    "GetInventoryConfiguration",
    "GetLifecycleConfiguration",
    "GetMetricsConfiguration",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectRetention",
    "GetObjectTagging",
    "GetObjectTorrent",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionForReplication",
    "GetObjectVersionTagging",
    "GetObjectVersionTorrent",
    "GetReplicationConfiguration",
    "InitiateReplication",
    "ListAccessPoints",
    "ListAllMyBuckets",
    "ListBucket",
    "ListBucketMultipartUploads",
    "ListBucketVersions",
    "ListJobs",
    "ListMultipartUploadParts",
    "ListTagsForResource",
    "ObjectOwnerOverrideToBucketOwner",
    "PutAccelerateConfiguration",
    "PutAccountPublicAccessBlock",
    "PutAnalyticsConfiguration",
    "PutBucketAcl",
    "PutBucketCORS",
    "PutBucketLogging",
    "PutBucketNotification",
    "PutBucketObjectLockConfiguration",
    "PutBucketOwnershipControls",
    "PutBucketPolicy",
    "PutBucketPublicAccessBlock",
    "PutBucketRequestPayment",
    "PutBucketTagging",
    "PutBucketVersioning",
    "PutBucketWebsite",
    "PutEncryptionConfiguration",
    "PutIntelligentTieringConfiguration",
    "PutInventoryConfiguration",
    "PutLifecycleConfiguration",
    "PutMetricsConfiguration",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectRetention",
    "PutObjectTagging",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
    "PutReplicationConfiguration",
    "ReplicateDelete",
    "ReplicateObject",
    "ReplicateTags",
    "RestoreObject",
    "TagResource",
    "UntagResource",
    "UpdateJobPriority",
    "UpdateJobStatus",
    "CreateSession",
    "GetStorageLensConfiguration",
    "ListStorageLensConfigurations",
    "PutStorageLensConfiguration",
};

// Source: the same, "... for Amazon S3 Express".
constexpr std::string_view express_actions[] = {
    "CreateBucket",
    "CreateSession",
    "DeleteBucket",
    "DeleteBucketPolicy",
    "GetBucketPolicy",
    "GetEncryptionConfiguration",
    "GetLifecycleConfiguration",
    "ListAllMyDirectoryBuckets",
    "ListTagsForResource",
    "PutBucketPolicy",
    "PutEncryptionConfiguration",
    "PutLifecycleConfiguration",
    "TagResource",
    "UntagResource",
};

// In lower case. What Verbena has no value for counts as absent, as it does in AWS where the fact does not apply.
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

bool names_one_of(std::string_view name_pattern, std::span<const std::string_view> actions) {
  const auto pattern = Pattern::parse(name_pattern, {.wildcards = true, .variables = false});
  return std::ranges::any_of(actions, [&](std::string_view action) {
    const Question none;
    Inquiry inquiry(none);
    return pattern->matches(action, inquiry, Letters::any_case);
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

bool is_condition_key(std::string_view key, PolicyKind kind) {
  const size_t colon = key.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == key.size()) return false;
  if (kind != PolicyKind::resource) return true;
  const std::string normal = normal_key(key);
  const auto known = [&](std::string_view name) { return names(name, normal); };
  return std::ranges::any_of(condition_keys, known);
}

}  // namespace verbena::auth
