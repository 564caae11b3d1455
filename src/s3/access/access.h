// What a bucket's owner has said about access to it, read once and kept until one of its documents changes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/policy.h"
#include "s3/access/acl.h"
#include "s3/documents/access_generation.h"
#include "s3/documents/lifecycle_rules.h"
#include "s3/documents/notification_rules.h"
#include "s3/service.h"

namespace verbena::s3 {

enum class Ownership : uint8_t {
  object_writer,           // objects belong to who writes them; lists count. What a bucket has that says nothing
  bucket_owner_preferred,  // those that are given with bucket-owner-full-control belong to the bucket's owner
  bucket_owner_enforced,   // all objects are the bucket owner's; lists do not count
};

struct PublicAccessBlock {
  bool block_acls = false, ignore_acls = false, block_policy = false, restrict_buckets = false;
};

// Immutable.
struct BucketAccess {
  std::string name;
  int64_t created_us = 0;  // with the owner: which of the buckets that had this name in time
  std::string owner;       // canonical id
  std::string owner_id;    // the account's id; empty when it is gone
  auth::PolicyPtr policy;  // null: none
  bool policy_public = false;
  bool policy_binds_root = false;  // its author has confirmed that the owner's root may lose the policy, too
  Acl acl;                         // of the bucket
  Ownership ownership = Ownership::object_writer;
  PublicAccessBlock block;
  auth::LimitsPtr limits, owner_limits;  // quotas of the bucket and of its owner; null: none
  bool directory = false;                // a directory bucket: no lists, nothing for everybody
  bool encrypts = false;                 // the bucket says how its objects are encrypted, which put_now() must know
  // Not about access, but asked for by every GET as well; null: none, or none that can be read.
  std::shared_ptr<const std::vector<LifecycleRule>> lifecycle;
  std::shared_ptr<const NotificationRules> notifications;  // by each change; null: none

  bool lists_count() const { return ownership != Ownership::bucket_owner_enforced; }
  bool groups_count() const { return !block.ignore_acls; }
  bool has_quota() const { return limits != nullptr || owner_limits != nullptr; }
};
using BucketAccessPtr = std::shared_ptr<const BucketAccess>;

// The bucket's record if this thread has it; valid until this thread's next call of these two. nullptr: ask
// bucket_access(). Neither allocates nor locks.
const BucketAccess* cached_access(const Service& service, std::string_view bucket);
// The same record, valid for as long as the result is held.
BucketAccessPtr held_access(const Service& service, std::string_view bucket);

// no_such_bucket; corrupt_object: a document that cannot be read, which must not open the bucket; service_unavailable.
Task<Result<BucketAccessPtr>> bucket_access(Service& service, const std::string& bucket);

}  // namespace verbena::s3
