// Who may do what: asked here by every verb, whichever door it came through.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/access/actions.h"
#include "s3/service.h"
#include "s3/types.h"

namespace verbena::s3 {

// The parameters of a listing that its request brought: a condition key is there only if the request brought it.
struct Listing {
  std::optional<std::string_view> prefix{}, delimiter{};
  std::optional<std::string> max_keys{};
};
// Over HTTP what is in the query; at the native door, whose messages have a place for each, what is not empty.
Listing listing_of(const Call& caller, const store::ListRequest& request);

// What is asked for, and what conditions of policies may look at. What is null or empty was not given.
struct Asked {
  const Action& action;
  std::string_view key{};                     // of an object's action
  std::string_view version_id{};              // as the request names it
  const store::ObjectInfo* object = nullptr;  // what is there: its owner, list and tags
  const Listing* list = nullptr;
  const store::Tags* tags = nullptr;  // that the request gives
  const store::ObjectLock* lock = nullptr;
  const Headers* headers = nullptr;                     // at the native door: that the request brings for the object
  std::string_view session_mode{};                      // s3express:SessionMode
  const store::CommitConditions* conditions = nullptr;  // of a write or a removal
  std::optional<bool> creates{};                        // s3:ObjectCreationOperation: whether an object comes of it
  std::string_view location{};                          // of a new bucket, as its request names it
};

// Who asks; nullptr: anonymous.
const auth::Principal* principal_of(const Call& caller);
// Whether that is the owner's root (or the superuser), limited by nothing: no session policy, no directory bucket's
// session.
bool is_owners_root(const Call& caller, const BucketAccess& access);
// The canonical id that new buckets and objects of this caller belong to.
std::string_view owner_of(const Call& caller);

// access_denied. Allocates nothing for the owner's root and the superuser in a bucket without a policy.
Result<void> authorize(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked);

// Whether the caller may do this with every object of the bucket that has no attributes of its own (so no access
// control list), whatever its key and whatever else a request says. False says nothing: authorize() is to be asked for
// each. True holds as long as the caller's identity and the bucket's record are these.
bool authorize_all(const Service& service, const Call& caller, const BucketAccess& access, const Action& action);

// Whether the caller could be allowed this at all: by the names in policies and lists alone, whatever conditions and
// denials say, which may look at what has not come yet. Without a key, an action on objects is asked for on any object
// of the bucket. For the time before a request's document is read; authorize() has the last word.
Result<void> could_authorize(const Service& service, const Call& caller, const BucketAccess& access,
                             const Asked& asked);

struct ObjectName {
  std::string_view key, version_id;
};
// Before a write or removal with these conditions: whether they are met tells what is there, so all but
// If-None-Match: * ask for s3:GetObject, too (Amazon S3 User Guide, "How to prevent object overwrites with conditional
// writes"). access_denied.
Task<Result<void>> authorize_conditions(Service& service, const Call& caller, const BucketAccess& access,
                                        ObjectName name, const store::CommitConditions& conditions);
// The same without waiting, of conditions that tell what is there. `found`: Store::stat() of that name.
bool tells_what_is_there(const store::CommitConditions& conditions);
Result<void> authorize_conditions(const Service& service, const Call& caller, const BucketAccess& access,
                                  ObjectName name, const Result<store::ObjectInfo>& found);

// Whether what a request was allowed by may be another by now. `access_generation`: of the bucket's access, then.
bool may_have_changed(const Service& service, const Call& caller, uint64_t access_generation);
// The caller by what there is of his key now. What a new request with that key would get: invalid_access_key_id, ...
Result<Call> caller_now(const Service& service, const Call& caller);
// The bucket's record as it is now. no_such_bucket when another one has the name.
Task<Result<BucketAccessPtr>> same_bucket_access(Service& service, const BucketAccess& before);

// An action that is on no bucket that exists: s3:ListAllMyBuckets, s3:CreateBucket. `location`: the region or zone that
// the request names for a new bucket.
Result<void> authorize_service(const Service& service, const Call& caller, const Action& action,
                               std::string_view bucket, std::string_view location = {});
// Likewise by the names in policies alone, before the document is read that conditions may look at.
Result<void> could_authorize_service(const Service& service, const Call& caller, const Action& action,
                                     std::string_view bucket);

// Loads the bucket's record and asks for an action on the bucket. access_denied, no_such_bucket, invalid_bucket_name;
// method_not_allowed: of the owner's account alone, whatever the policy allows (AWS, PutBucketPolicy).
Task<Result<BucketAccessPtr>> authorize_bucket(Service& service, const Call& caller, const std::string& bucket,
                                               const Action& action);

// access_denied when the bucket belongs to another account than the one that is named by its id or canonical id.
Task<Result<void>> check_expected_owner(Service& service, const std::string& bucket, std::string_view account);

// What to tell who asked for an object that could not be had: only who may list the bucket learns what is not there.
Error missing_error(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked,
                    const Error& error);

// Before an object is written: the right to, and the attributes that say whose it is. Errors: access_denied,
// acl_not_supported.
Result<store::Attributes> authorize_new_object(const Service& service, const Call& caller, const BucketAccess& access,
                                               const Asked& asked, const AclWish& wish);

// The right to what a new object is to have besides, by an action of its own: within the owner's account it must be
// allowed. A writer from elsewhere owns what it writes, and has it unless a policy denies that.
Result<void> authorize_besides(const Service& service, const Call& caller, const BucketAccess& access,
                               const Asked& asked);

// A list that is to be set, if the bucket's settings allow it. acl_not_supported, access_denied.
Result<Acl> allowed_acl(const BucketAccess& access, Acl acl, const AclWish& wish);

// The list of an object, as it stands; that of its owner alone where none is kept.
Acl object_acl(const BucketAccess& access, const store::ObjectInfo& object);
std::string_view owner_of(const BucketAccess& access, const store::ObjectInfo& object);
// The attributes that keep it: none for the private list of the bucket's owner.
store::Attributes acl_attributes(const BucketAccess& access, const Acl& acl);
// The same as a change of what an object has.
store::Attributes acl_change(const BucketAccess& access, const Acl& acl);

}  // namespace verbena::s3
