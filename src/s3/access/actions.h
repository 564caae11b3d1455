// Names of S3's verbs in policies, and the ACL permissions that allow them. Source: Amazon S3 User Guide, "Mapping of
// ACL permissions and access policy permissions".
#pragma once

#include <cstdint>
#include <string_view>

#include "s3/grant.h"

namespace verbena::s3 {

enum class SessionUse : uint8_t { none, read, write };

struct Action {
  std::string_view name;                        // "s3:GetObject"
  std::string_view on_version = {};             // the name for a request with a version id; empty: the same
  bool on_object = false;                       // the resource is the object, else the bucket
  Permission by_bucket_acl = Permission::none;  // allowed by this permission in the bucket's ACL
  Permission by_object_acl = Permission::none;  // of the object's
  bool root_always = false;                     // no policy can deny it to the owner's root
  bool owners_account = false;                  // only for the owner's account, whatever policies allow others
  // In a directory bucket: the session mode that allows it, which policies know as s3express:CreateSession. none: a
  // call about the bucket, which has a name of its own in policies.
  SessionUse in_session = SessionUse::none;
};

namespace action {

inline constexpr Action list_buckets{.name = "s3:ListAllMyBuckets"};
inline constexpr Action create_bucket{.name = "s3:CreateBucket"};
inline constexpr Action delete_bucket{.name = "s3:DeleteBucket"};
inline constexpr Action list{
    .name = "s3:ListBucket", .by_bucket_acl = Permission::read, .in_session = SessionUse::read};
inline constexpr Action list_versions{.name = "s3:ListBucketVersions", .by_bucket_acl = Permission::read};
inline constexpr Action list_uploads{
    .name = "s3:ListBucketMultipartUploads", .by_bucket_acl = Permission::read, .in_session = SessionUse::read};
inline constexpr Action get_location{.name = "s3:GetBucketLocation"};
inline constexpr Action get_bucket_acl{.name = "s3:GetBucketAcl", .by_bucket_acl = Permission::read_acp};
inline constexpr Action put_bucket_acl{.name = "s3:PutBucketAcl", .by_bucket_acl = Permission::write_acp};
inline constexpr Action get_policy{.name = "s3:GetBucketPolicy", .root_always = true, .owners_account = true};
inline constexpr Action put_policy{.name = "s3:PutBucketPolicy", .root_always = true, .owners_account = true};
inline constexpr Action delete_policy{.name = "s3:DeleteBucketPolicy", .root_always = true, .owners_account = true};
inline constexpr Action get_policy_status{.name = "s3:GetBucketPolicyStatus"};
inline constexpr Action get_public_access{.name = "s3:GetBucketPublicAccessBlock"};
inline constexpr Action put_public_access{.name = "s3:PutBucketPublicAccessBlock"};
inline constexpr Action get_ownership{.name = "s3:GetBucketOwnershipControls"};
inline constexpr Action put_ownership{.name = "s3:PutBucketOwnershipControls"};
inline constexpr Action get_cors{.name = "s3:GetBucketCORS"};
inline constexpr Action put_cors{.name = "s3:PutBucketCORS"};
inline constexpr Action get_bucket_tagging{.name = "s3:GetBucketTagging"};
inline constexpr Action put_bucket_tagging{.name = "s3:PutBucketTagging"};
inline constexpr Action list_resource_tags{.name = "s3:ListTagsForResource"};
inline constexpr Action tag_resource{.name = "s3:TagResource"};
inline constexpr Action untag_resource{.name = "s3:UntagResource"};
inline constexpr Action get_versioning{.name = "s3:GetBucketVersioning"};
inline constexpr Action put_versioning{.name = "s3:PutBucketVersioning"};
inline constexpr Action get_bucket_lock{.name = "s3:GetBucketObjectLockConfiguration"};
inline constexpr Action put_bucket_lock{.name = "s3:PutBucketObjectLockConfiguration"};
inline constexpr Action get_lifecycle{.name = "s3:GetLifecycleConfiguration"};
inline constexpr Action put_lifecycle{.name = "s3:PutLifecycleConfiguration"};
inline constexpr Action get_encryption{.name = "s3:GetEncryptionConfiguration"};
inline constexpr Action put_encryption{.name = "s3:PutEncryptionConfiguration"};
inline constexpr Action get_notification{.name = "s3:GetBucketNotification"};
inline constexpr Action put_notification{.name = "s3:PutBucketNotification"};
inline constexpr Action get_logging{.name = "s3:GetBucketLogging"};
inline constexpr Action put_logging{.name = "s3:PutBucketLogging"};
inline constexpr Action get_accelerate{.name = "s3:GetAccelerateConfiguration"};
inline constexpr Action put_accelerate{.name = "s3:PutAccelerateConfiguration"};
inline constexpr Action get_request_payment{.name = "s3:GetBucketRequestPayment"};
inline constexpr Action put_request_payment{.name = "s3:PutBucketRequestPayment"};
inline constexpr Action get_website{.name = "s3:GetBucketWebsite"};
inline constexpr Action delete_website{.name = "s3:DeleteBucketWebsite"};
inline constexpr Action get_replication{.name = "s3:GetReplicationConfiguration"};
inline constexpr Action put_replication{.name = "s3:PutReplicationConfiguration"};

inline constexpr Action get_object{.name = "s3:GetObject",
                                   .on_version = "s3:GetObjectVersion",
                                   .on_object = true,
                                   .by_object_acl = Permission::read,
                                   .in_session = SessionUse::read};
inline constexpr Action get_attributes{.name = "s3:GetObjectAttributes",
                                       .on_version = "s3:GetObjectVersionAttributes",
                                       .on_object = true,
                                       .by_object_acl = Permission::read,
                                       .in_session = SessionUse::read};
inline constexpr Action get_object_acl{.name = "s3:GetObjectAcl",
                                       .on_version = "s3:GetObjectVersionAcl",
                                       .on_object = true,
                                       .by_object_acl = Permission::read_acp};
inline constexpr Action put_object_acl{.name = "s3:PutObjectAcl",
                                       .on_version = "s3:PutObjectVersionAcl",
                                       .on_object = true,
                                       .by_object_acl = Permission::write_acp};
inline constexpr Action get_object_tagging{
    .name = "s3:GetObjectTagging", .on_version = "s3:GetObjectVersionTagging", .on_object = true};
inline constexpr Action put_object_tagging{
    .name = "s3:PutObjectTagging", .on_version = "s3:PutObjectVersionTagging", .on_object = true};
inline constexpr Action delete_object_tagging{
    .name = "s3:DeleteObjectTagging", .on_version = "s3:DeleteObjectVersionTagging", .on_object = true};
inline constexpr Action get_retention{.name = "s3:GetObjectRetention", .on_object = true};
inline constexpr Action put_retention{.name = "s3:PutObjectRetention", .on_object = true};
inline constexpr Action get_legal_hold{.name = "s3:GetObjectLegalHold", .on_object = true};
inline constexpr Action put_legal_hold{.name = "s3:PutObjectLegalHold", .on_object = true};
inline constexpr Action bypass_governance{.name = "s3:BypassGovernanceRetention", .on_object = true};
inline constexpr Action put_object{
    .name = "s3:PutObject", .on_object = true, .by_bucket_acl = Permission::write, .in_session = SessionUse::write};
inline constexpr Action delete_object{
    .name = "s3:DeleteObject", .on_object = true, .by_bucket_acl = Permission::write, .in_session = SessionUse::write};
inline constexpr Action delete_version{
    .name = "s3:DeleteObjectVersion", .on_object = true, .in_session = SessionUse::write};
inline constexpr Action list_parts{.name = "s3:ListMultipartUploadParts",
                                   .on_object = true,
                                   .by_bucket_acl = Permission::write,
                                   .in_session = SessionUse::read};
inline constexpr Action abort_upload{.name = "s3:AbortMultipartUpload",
                                     .on_object = true,
                                     .by_bucket_acl = Permission::write,
                                     .in_session = SessionUse::write};

// Only for directory buckets.
inline constexpr Action create_session{.name = "s3express:CreateSession"};
inline constexpr Action list_directory_buckets{.name = "s3express:ListAllMyDirectoryBuckets"};

}  // namespace action
}  // namespace verbena::s3
