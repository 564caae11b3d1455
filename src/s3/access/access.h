// A bucket's access record: policy, ACL, ownership, public access block and more, cached until a document changes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/policy.h"
#include "s3/access/acl.h"
#include "s3/access_generation.h"
#include "s3/documents/lifecycle_rules.h"
#include "s3/documents/notification_rules.h"
#include "s3/service.h"

namespace verbena::s3 {

class Bound;

enum class Ownership : uint8_t {
  object_writer,           // objects belong to their writer; ACLs count. The default
  bucket_owner_preferred,  // objects written with bucket-owner-full-control belong to the bucket's owner
  bucket_owner_enforced,   // all objects belong to the bucket's owner; ACLs do not count
};

struct PublicAccessBlock {
  bool block_acls = false, ignore_acls = false, block_policy = false, restrict_buckets = false;
};

// Immutable.
struct BucketAccess {
  AccessGeneration::Mark mark;  // as long as it is current, so is the record
  std::string name;
  int64_t created_us = 0;  // with the owner: tells this bucket from earlier ones of its name
  std::string owner;       // canonical id
  std::string owner_id;    // the account's id; empty when it is gone
  auth::PolicyPtr policy;  // null: none
  bool policy_public = false;
  bool policy_binds_root = false;  // confirmed by its author: the policy binds the owner's root too
  Acl acl;                         // of the bucket
  Ownership ownership = Ownership::object_writer;
  PublicAccessBlock block;
  auth::LimitsPtr limits, owner_limits;  // quotas of the bucket and of its owner; null: none
  bool directory = false;                // a directory bucket: no ACLs, no public access
  bool opaque_etags = false;             // entity tags of objects and parts are no MD5s: a PUT computes none
  bool encrypts = false;                 // the bucket has a default encryption, which put_now() must know
  std::shared_ptr<Bound> bound;          // null: none
  // Not about access, but needed by every GET; null: none, or not readable.
  std::shared_ptr<const std::vector<LifecycleRule>> lifecycle;
  std::shared_ptr<const NotificationRules> notifications;  // by each change; null: none

  store::BucketMade made() const { return {.created_us = created_us, .owner = owner}; }
  bool lists_count() const { return ownership != Ownership::bucket_owner_enforced; }
  bool groups_count() const { return !block.ignore_acls; }
  bool has_quota() const { return limits != nullptr || owner_limits != nullptr; }
};
using BucketAccessPtr = std::shared_ptr<const BucketAccess>;

// The bucket's record from this thread's cache, valid until the thread's next call of these two functions. nullptr:
// call bucket_access(). Neither allocates nor locks.
const BucketAccess* cached_access(const Service& service, std::string_view bucket);
// The same record, valid for as long as the result is held.
BucketAccessPtr held_access(const Service& service, std::string_view bucket);

// no_such_bucket; corrupt_object: an unreadable document, which must not open the bucket; service_unavailable.
Task<Result<BucketAccessPtr>> bucket_access(Service& service, const std::string& bucket);

}  // namespace verbena::s3
