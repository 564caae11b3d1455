// Authorization: called by every verb, for every door.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/access/actions.h"
#include "s3/service.h"
#include "s3/types.h"

namespace verbena::s3 {

// The parameters of a listing that its request has. A condition key exists only if the request has the parameter.
struct Listing {
  std::optional<std::string_view> prefix{}, delimiter{};
  std::optional<std::string> max_keys{};
};
// Over HTTP those in the query; at the native door, whose messages have a field for each, those that are not empty.
Listing listing_of(const Call& caller, const store::ListRequest& request);

// The requested action, and the inputs of policy conditions. Null or empty members were not given.
struct Asked {
  const Action& action;
  std::string_view key{};                     // for an action on an object
  std::string_view version_id{};              // from the request
  const store::ObjectInfo* object = nullptr;  // the existing object: its owner, ACL and tags
  const Listing* list = nullptr;
  const store::Tags* tags = nullptr;  // from the request
  const store::ObjectLock* lock = nullptr;
  const Headers* headers = nullptr;                     // at the native door: the new object's headers in the request
  std::string_view session_mode{};                      // s3express:SessionMode
  const store::CommitConditions* conditions = nullptr;  // of a write or a removal
  std::optional<bool> creates{};                        // s3:ObjectCreationOperation: whether it creates an object
  std::string_view location{};                          // of a new bucket, from its request
};

// The caller's principal; nullptr: anonymous.
const auth::Principal* principal_of(const Call& caller);
// Whether the caller is the owner's root (or the superuser) without limits: no session policy, no directory bucket's
// session.
bool is_owners_root(const Call& caller, const BucketAccess& access);
// The canonical id that new buckets and objects of this caller belong to.
std::string_view owner_of(const Call& caller);

// access_denied. Allocates nothing for the owner's root and the superuser in a bucket without a policy.
Result<void> authorize(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked);

// Whether the caller may do this with every object of the bucket that has no attributes (so no ACL), whatever its key
// and the rest of the request. False: undecided, call authorize() for each object. True holds while the caller's
// identity and the bucket's record stay the same.
bool authorize_all(const Service& service, const Call& caller, const BucketAccess& access, const Action& action);

// Whether the caller could be allowed this at all: judged by the names in policies and ACLs alone, without conditions
// and denials, whose inputs may still be missing. Without a key, an action on objects counts for any object of the
// bucket. For use before a request's document is read; authorize() decides.
Result<void> could_authorize(const Service& service, const Call& caller, const BucketAccess& access,
                             const Asked& asked);

struct ObjectName {
  std::string_view key, version_id;
};
// The right to conditions of a write or removal. Their result reveals the current object, so all but If-None-Match: *
// also need s3:GetObject (Amazon S3 User Guide, "How to prevent object overwrites with conditional writes").
// access_denied.
Task<Result<void>> authorize_conditions(Service& service, const Call& caller, const BucketAccess& access,
                                        ObjectName name, const store::CommitConditions& conditions);
// The same without waiting, for conditions that reveal the object. `found`: Store::stat() of that name.
bool tells_what_is_there(const store::CommitConditions& conditions);
Result<void> authorize_conditions(const Service& service, const Call& caller, const BucketAccess& access,
                                  ObjectName name, const Result<store::ObjectInfo>& found);

// Whether the rights may have changed since a request was authorized by this record.
bool may_have_changed(const Service& service, const Call& caller, const BucketAccess& access);
// Looks the caller's key up again. Errors as for a new request with that key: invalid_access_key_id, ...
Result<Call> caller_now(const Service& service, const Call& caller);
// The bucket's current record. no_such_bucket if a new bucket has the name.
Task<Result<BucketAccessPtr>> same_bucket_access(Service& service, const BucketAccess& before);

// Authorizes an action without an existing bucket: s3:ListAllMyBuckets, s3:CreateBucket. `location`: the region or zone
// that the request names for a new bucket.
Result<void> authorize_service(const Service& service, const Call& caller, const Action& action,
                               std::string_view bucket, std::string_view location = {});
// Likewise, by the names in policies alone: before the document is read that conditions may need.
Result<void> could_authorize_service(const Service& service, const Call& caller, const Action& action,
                                     std::string_view bucket);

// Loads the bucket's record and authorizes an action on the bucket. access_denied, no_such_bucket, invalid_bucket_name;
// method_not_allowed: the action is only for the owner's account (AWS, PutBucketPolicy).
Task<Result<BucketAccessPtr>> authorize_bucket(Service& service, const Call& caller, const std::string& bucket,
                                               const Action& action);

// access_denied if the bucket belongs to another account than the one given by id or canonical id. no_such_bucket: a
// verb that went on could meet one that is made after this.
Task<Result<void>> check_expected_owner(Service& service, const std::string& bucket, std::string_view account);

// The error for an object that could not be read: only callers that may list the bucket learn that it does not exist.
Error missing_error(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked,
                    const Error& error);

// Authorizes writing an object, and returns the attributes with its owner. Errors: access_denied, acl_not_supported.
Result<store::Attributes> authorize_new_object(const Service& service, const Call& caller, const BucketAccess& access,
                                               const Asked& asked, const AclWish& wish);

// The right to a property of a new object that has an action of its own (tags, ACL, lock). Callers in the owner's
// account need it to be allowed. A writer from another account owns its objects and has the right unless a policy
// denies it.
Result<void> authorize_besides(const Service& service, const Call& caller, const BucketAccess& access,
                               const Asked& asked);

// The ACL to set, if the bucket's settings allow it. acl_not_supported, access_denied.
Result<Acl> allowed_acl(const BucketAccess& access, Acl acl, const AclWish& wish);

// The ACL of an object; the private one if none is stored.
Acl object_acl(const BucketAccess& access, const store::ObjectInfo& object);
std::string_view owner_of(const BucketAccess& access, const store::ObjectInfo& object);
// The attribute that tells an object's owner, and the owner by its value; empty: the object has none.
std::string_view owner_attribute();
std::string_view owner_by(const BucketAccess& access, std::string_view attribute);
// The attributes that store an ACL: none for the private ACL of the bucket's owner.
store::Attributes acl_attributes(const BucketAccess& access, const Acl& acl);
// The same as a change of an object's attributes.
store::Attributes acl_change(const BucketAccess& access, const Acl& acl);

}  // namespace verbena::s3
