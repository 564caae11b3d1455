#include "s3/access/authorize.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "auth/auth.h"
#include "auth/policy_dependence.h"
#include "call/request_facts.h"
#include "s3/access/facts.h"
#include "s3/names.h"
#include "s3/service.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view acl_attribute = "acl";  // on disk

std::string arn_of(std::string_view bucket, const Asked& asked) {
  constexpr std::string_view before = "arn:aws:s3:::";
  std::string arn;
  arn.reserve(before.size() + bucket.size() + 1 + asked.key.size());  // once, in each hot GET
  arn.append(before).append(bucket);
  if (asked.action.on_object) {
    arn += '/';
    arn += asked.key;
  }
  return arn;
}

// The bucket only: objects of a directory bucket have no names in policies.
std::string directory_arn(const Service& service, std::string_view account, std::string_view bucket) {
  std::string arn("arn:aws:s3express:");
  return arn.append(service.region).append(":").append(account).append(":bucket/").append(bucket);
}

// "s3express:CreateSession" for calls of a session, else the call's own name.
std::string directory_action(const Action& action) {
  if (action.in_session != SessionUse::none) return std::string(action::create_session.name);
  constexpr std::string_view general = "s3:";
  if (!action.name.starts_with(general)) return std::string(action.name);
  return std::string("s3express:").append(action.name.substr(general.size()));
}

// The limits of the caller's session; null: none.
const auth::BucketSession* session_of(const Call& caller) {
  const auth::AccessKey* const key = caller.identity.key.get();
  return key != nullptr && key->limits ? &*key->limits : nullptr;
}

std::string_view name_of(const Asked& asked) {
  const Action& action = asked.action;
  return asked.version_id.empty() || action.on_version.empty() ? action.name : action.on_version;
}

bool is_root(const auth::Principal& principal) {
  return principal.superuser || principal.kind == auth::Principal::Kind::account_root;
}

bool is_limited(const auth::Principal& principal) { return !principal.session.empty() || !principal.policies.empty(); }

bool owns(const auth::Principal* principal, std::string_view owner) {
  return principal != nullptr && (principal->superuser || principal->account->canonical_id == owner);
}

// Whether only the owner's root may do it.
bool allowed_at_once(const auth::Principal* principal, const BucketAccess& access, const Asked& asked) {
  if (principal == nullptr || access.policy != nullptr || !is_root(*principal) || is_limited(*principal)) return false;
  if (principal->superuser) return true;
  if (principal->account->canonical_id != access.owner) return false;
  const bool bucket_list = access.lists_count() && asked.action.by_bucket_acl != Permission::none;
  if (bucket_list && !is_private(access.acl)) return false;
  return asked.object == nullptr || asked.object->attributes.empty() || !access.lists_count() ||
         store::find_attribute(asked.object->attributes, acl_attribute) == nullptr;
}

// Whether the ACL allows this action.
auth::Reach granted_by_list(const auth::Principal* principal, const BucketAccess& access, const Asked& asked,
                            const Acl* list) {
  if (!access.lists_count()) return auth::Reach::none;
  const bool groups = access.groups_count();
  auto reach = reach_of(access.acl, asked.action.by_bucket_acl, principal, groups);
  if (list != nullptr) reach = std::max(reach, reach_of(*list, asked.action.by_object_acl, principal, groups));
  return reach;
}

// An owner's ACL may take a permission from the owner itself: then its root lacks it too, except for the right to the
// ACL.
bool gave_up(const auth::Principal& principal, const BucketAccess& access, const Asked& asked, const Acl* list) {
  if (principal.superuser || !is_root(principal) || !access.lists_count()) return false;
  const auto lacks = [&](const Acl& acl, Permission permission) {
    const bool of_list = permission == Permission::read_acp || permission == Permission::write_acp;
    return permission != Permission::none && !of_list && acl.owner == principal.account->canonical_id &&
           reach_of(acl, permission, &principal, access.groups_count()) == auth::Reach::none;
  };
  return lacks(access.acl, asked.action.by_bucket_acl) || (list != nullptr && lacks(*list, asked.action.by_object_acl));
}

bool root_may_always(const auth::Principal* principal, const BucketAccess& access, const Asked& asked) {
  if (principal == nullptr || !asked.action.root_always || !is_root(*principal) || is_limited(*principal)) return false;
  return principal->superuser || (principal->account->canonical_id == access.owner && !access.policy_binds_root);
}

// Marks the request for the bucket's log (ACLRequired) if only the ACL allowed it.
void note_list(const Call& caller, const auth::Question& question, const auth::Resource& resource) {
  if (resource.granted == auth::Reach::none || !caller.facts.http || caller.records.empty()) return;
  auth::Resource without = resource;
  without.granted = auth::Reach::none;
  if (auth::decide(question, without) != auth::Decision::allowed) caller.records.front()->set_acl_required();
}

// The decision of the bucket's side. `list`: the object's ACL; null: not known.
auth::Resource resource_of(const auth::Principal* principal, const BucketAccess& access, const Asked& asked,
                           const Acl* list) {
  auth::Resource resource;
  resource.policy = access.policy.get();
  resource.owner = list != nullptr ? std::string_view(list->owner) : std::string_view(access.owner);
  resource.granted = granted_by_list(principal, access, asked, list);
  resource.own_account_only = access.policy_public && access.block.restrict_buckets;
  // A bucket's policy does not apply to objects of other accounts (Amazon S3 User Guide, "Bucket policies").
  resource.allows = resource.owner == access.owner;
  return resource;
}

bool allows(const auth::BucketSession& session, const BucketAccess& access, SessionUse use) {
  if (session.bucket != access.name || use == SessionUse::none) return false;
  return use == SessionUse::read || !session.read_only;
}

auth::Decision ask_mode(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked,
                        std::string_view mode) {
  Asked in_mode = {.action = asked.action, .key = asked.key, .headers = asked.headers, .session_mode = mode};
  const RequestFacts facts(service, caller, access.owner_id, in_mode);
  const std::string name = directory_action(asked.action), arn = directory_arn(service, access.owner_id, access.name);
  auth::Resource resource;
  resource.policy = access.policy.get();
  resource.owner = access.owner;
  resource.own_account_only = access.policy_public;
  return auth::decide({principal_of(caller), name, arn, &facts}, resource);
}

// A cache of recent sessions' rights in their buckets, for policies whose decision is the same for every request. One
// per thread. An entry holds the session's key, so that no other key can have its address, and is valid for one record
// of the session's bucket (AccessGeneration::Mark). An account has a few entries, however many sessions it opens.
struct KnownSession {
  auth::AccessKeyPtr key;
  uint64_t credentials = 0;
  AccessGeneration::Mark access{};
};
constexpr size_t known_of_account = 32, known_accounts = 16;  // direct-mapped: a collision evicts, nothing grows
using KnownSessions = std::array<KnownSession, known_of_account * known_accounts>;

KnownSession& place_of(KnownSessions& known, const auth::AccessKey& key) {
  const auto place = [](const void* object, size_t places) { return std::hash<const void*>()(object) / 64 % places; };
  return known[place(key.principal->account.get(), known_accounts) * known_of_account + place(&key, known_of_account)];
}

auth::Decision ask_session(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked,
                           std::string_view mode) {
  thread_local const auto known = std::make_unique<KnownSessions>();
  const auth::Identity& who = caller.identity;
  KnownSession& slot = place_of(*known, *who.key);
  if (slot.key == who.key && slot.credentials == who.generation && slot.access == access.mark) {
    return auth::Decision::allowed;
  }
  const auto decision = ask_mode(service, caller, access, asked, mode);
  const bool lasts = decision == auth::Decision::allowed && !depends_on_request(*principal_of(caller)) &&
                     (access.policy == nullptr || !depends_on_request(*access.policy));
  // The record may be from before a concurrent change.
  if (lasts && cached_access(service, access.name) == &access) slot = {who.key, who.generation, access.mark};
  return decision;
}

// In a directory bucket a caller that may open a session may do what a session may, with or without one. The right is
// checked for each request, so that open sessions end when it is taken away.
auth::Decision ask_directory(const Service& service, const Call& caller, const BucketAccess& access,
                             const Asked& asked) {
  constexpr std::string_view read_only = "ReadOnly", read_write = "ReadWrite";
  const auth::Principal* const principal = principal_of(caller);
  if (principal == nullptr) return auth::Decision::refused;
  const auth::BucketSession* const session = session_of(caller);
  const SessionUse use = asked.action.in_session;
  if (session != nullptr && !allows(*session, access, use)) return auth::Decision::refused;
  if (allowed_at_once(principal, access, asked) || root_may_always(principal, access, asked)) {
    return auth::Decision::allowed;
  }
  if (use == SessionUse::none) return ask_mode(service, caller, access, asked, asked.session_mode);
  if (session != nullptr)
    return ask_session(service, caller, access, asked, session->read_only ? read_only : read_write);
  if (use == SessionUse::read) {
    const auto decision = ask_mode(service, caller, access, asked, read_only);
    if (decision == auth::Decision::allowed) return decision;
  }
  return ask_mode(service, caller, access, asked, read_write);
}

auth::Decision ask(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked) {
  if (access.directory) return ask_directory(service, caller, access, asked);
  if (session_of(caller) != nullptr) return auth::Decision::refused;
  const auth::Principal* const principal = principal_of(caller);
  if (allowed_at_once(principal, access, asked) || root_may_always(principal, access, asked)) {
    return auth::Decision::allowed;
  }
  std::optional<Acl> list;
  // If ACLs do not count, each object belongs to its bucket's owner.
  if (asked.object != nullptr && access.lists_count()) list = object_acl(access, *asked.object);
  const std::string arn = arn_of(access.name, asked);
  const RequestFacts facts(service, caller, access.owner_id, asked);
  const auth::Question question{principal, name_of(asked), arn, &facts};
  const auth::Resource resource = resource_of(principal, access, asked, list ? &*list : nullptr);
  const auto decision = auth::decide(question, resource);
  if (decision == auth::Decision::allowed) note_list(caller, question, resource);
  if (decision != auth::Decision::allowed || principal == nullptr) return decision;
  if (!owns(principal, resource.owner) || !gave_up(*principal, access, asked, list ? &*list : nullptr)) return decision;
  const bool by_policy =
      access.policy != nullptr && auth::evaluate_resource(*access.policy, question).allowed != auth::Reach::none;
  return by_policy ? decision : auth::Decision::refused;
}

// Owner and access control list of a new object.
Result<Acl> new_object_acl(const Call& caller, const BucketAccess& access, const AclWish& wish) {
  if (!access.lists_count()) {
    const bool owner_only = !wish.any() || (wish.grants.empty() && wish.canned == "bucket-owner-full-control");
    if (!owner_only) return fail(Errc::acl_not_supported, "acl: bucket owner enforced");
    return private_acl(access.owner);
  }
  const bool given =
      access.ownership == Ownership::bucket_owner_preferred && wish.canned == "bucket-owner-full-control";
  const std::string_view owner = given ? std::string_view(access.owner) : owner_of(caller);
  Acl acl = make_acl(wish, owner, access.owner);
  if (access.block.block_acls && is_public(acl)) return fail(Errc::access_denied, "acl: public lists are blocked");
  return acl;
}

}  // namespace

Listing listing_of(const Call& caller, const store::ListRequest& request) {
  Listing out;
  if (const call::Facts& facts = caller.facts; facts.http) {
    out.prefix = facts.in_query("prefix");
    out.delimiter = facts.in_query("delimiter");
    if (const auto keys = facts.in_query("max-keys"); keys && !keys->empty()) out.max_keys = std::string(*keys);
    return out;
  }
  if (!request.prefix.empty()) out.prefix = request.prefix;
  if (!request.delimiter.empty()) out.delimiter = request.delimiter;
  out.max_keys = std::to_string(request.max_keys);
  return out;
}

const auth::Principal* principal_of(const Call& caller) {
  if (caller.identity.anonymous) return nullptr;
  return caller.identity.principal != nullptr ? caller.identity.principal.get() : auth::superuser().get();
}

bool is_owners_root(const Call& caller, const BucketAccess& access) {
  const auth::Principal* const principal = principal_of(caller);
  return principal != nullptr && session_of(caller) == nullptr && is_root(*principal) && !is_limited(*principal) &&
         owns(principal, access.owner);
}

std::string_view owner_of(const Call& caller) {
  const auth::Principal* const principal = principal_of(caller);
  return principal == nullptr ? anonymous_owner : std::string_view(principal->account->canonical_id);
}

Result<void> authorize(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked) {
  if (ask(service, caller, access, asked) == auth::Decision::allowed) return {};
  return fail(Errc::access_denied, "authorize");
}

bool authorize_all(const Service& service, const Call& caller, const BucketAccess& access, const Action& action) {
  // The longest key, for which evaluating a policy costs the most.
  static const std::string key(store::key_size_max, 'k');
  const store::ObjectInfo object;
  const Asked asked{.action = action, .key = key, .object = &object};
  const auth::Principal* const principal = principal_of(caller);
  const auth::BucketSession* const session = session_of(caller);
  if (session != nullptr && (!access.directory || !allows(*session, access, action.in_session))) return false;
  if (allowed_at_once(principal, access, asked) || root_may_always(principal, access, asked)) return true;
  if (access.directory) return false;
  const std::string prefix = arn_of(access.name, {.action = action});
  if (access.policy != nullptr && depends_on_resource(*access.policy, prefix)) return false;
  if (principal != nullptr && depends_on_resource(*principal, prefix)) return false;
  return ask(service, caller, access, asked) == auth::Decision::allowed;
}

Result<void> could_authorize(const Service& service, const Call& caller, const BucketAccess& access,
                             const Asked& asked) {
  // Those decisions do not depend on a key.
  if (access.directory || session_of(caller) != nullptr) return authorize(service, caller, access, asked);
  const auth::Principal* const principal = principal_of(caller);
  if (allowed_at_once(principal, access, asked) || root_may_always(principal, access, asked)) return {};
  std::optional<Acl> list;
  if (asked.object != nullptr) list = object_acl(access, *asked.object);
  const auth::Resource resource = resource_of(principal, access, asked, list ? &*list : nullptr);
  const bool any_key = asked.action.on_object && asked.key.empty();
  const std::string arn = arn_of(access.name, asked);
  const RequestFacts facts(service, caller, access.owner_id, asked);
  for (const std::string_view name : {asked.action.name, asked.action.on_version}) {
    if (name.empty() || (!any_key && name != name_of(asked))) continue;
    const auth::Question question{principal, name, arn, &facts};
    if (auth::could_allow(question, resource, any_key ? std::string_view(access.name) : std::string_view())) return {};
  }
  return fail(Errc::access_denied, "authorize: nothing of this kind");
}

bool tells_what_is_there(const store::CommitConditions& conditions) {
  const bool by_tag = conditions.if_none_match && *conditions.if_none_match != "*";
  return by_tag || conditions.if_match || conditions.if_modified_s || conditions.if_modified_us || conditions.if_size;
}

Result<void> authorize_conditions(const Service& service, const Call& caller, const BucketAccess& access,
                                  ObjectName name, const Result<store::ObjectInfo>& found) {
  Asked asked{.action = action::get_object, .key = name.key, .version_id = name.version_id};
  if (found) {
    asked.object = &*found;
    return authorize(service, caller, access, asked);
  }
  const Error told = missing_error(service, caller, access, asked, found.error());
  if (told.code == Errc::access_denied) return std::unexpected(told);
  return {};  // the write itself reports what is missing
}

Task<Result<void>> authorize_conditions(Service& service, const Call& caller, const BucketAccess& access,
                                        ObjectName name, const store::CommitConditions& conditions) {
  if (!tells_what_is_there(conditions)) co_return Result<void>();
  const auto found = co_await service.store.stat(access.name, name.key, name.version_id);
  co_return authorize_conditions(service, caller, access, name, found);
}

bool may_have_changed(const Service& service, const Call& caller, const BucketAccess& access) {
  const bool keys = service.credentials != nullptr && caller.identity.key != nullptr &&
                    service.credentials->generation() != caller.identity.generation;
  return keys || !service.access->is_current(access.mark);
}

Result<Call> caller_now(const Service& service, const Call& caller) {
  Call now = caller;
  if (service.credentials == nullptr || caller.identity.key == nullptr) return now;
  const auth::Credentials& signed_with = caller.identity.key->credentials;
  now.identity.generation = service.credentials->generation();
  // A session that ended while the body arrived was valid when the request arrived.
  VB_ASSIGN(now.identity.key, service.credentials->find(signed_with.access_key, signed_with.session_token,
                                                        call::arrived_us(caller, service.clock) / 1'000'000));
  if (now.identity.key->credentials.secret_key != signed_with.secret_key) {
    return fail(Errc::invalid_access_key_id, "the key was made anew");
  }
  now.identity.principal = now.identity.key->principal;
  return now;
}

Task<Result<BucketAccessPtr>> same_bucket_access(Service& service, const BucketAccess& before) {
  VB_CO_ASSIGN(BucketAccessPtr access, co_await bucket_access(service, before.name));
  if (access->created_us != before.created_us || access->owner != before.owner) {
    co_return fail(Errc::no_such_bucket, "the bucket was replaced while the body came");
  }
  co_return access;
}

namespace {

Result<void> ask_service(const Service& service, const Call& caller, const Asked& asked, std::string_view bucket,
                         bool by_names_alone) {
  const Action& action = asked.action;
  const auth::Principal* const principal = principal_of(caller);
  if (principal == nullptr) return fail(Errc::access_denied, "anonymous");
  if (session_of(caller) != nullptr) return fail(Errc::access_denied, "a session is of its bucket alone");
  const RequestFacts facts(service, caller, principal->account->id, asked);
  const bool directory = is_directory_bucket(bucket);
  const std::string arn = bucket.empty() ? std::string("*")
                          : directory    ? directory_arn(service, principal->account->id, bucket)
                                         : arn_of(bucket, asked);
  const std::string name = directory ? directory_action(action) : std::string(action.name);
  const auth::Question question{principal, name, arn, &facts};
  auth::Resource resource;
  resource.owner = principal->account->canonical_id;
  const bool allowed = by_names_alone ? auth::could_allow(question, resource, {})
                                      : auth::decide(question, resource) == auth::Decision::allowed;
  if (allowed) return {};
  return fail(Errc::access_denied, "authorize");
}

}  // namespace

Result<void> authorize_service(const Service& service, const Call& caller, const Action& action,
                               std::string_view bucket, std::string_view location) {
  const Asked asked{.action = action, .location = location};
  return ask_service(service, caller, asked, bucket, /*by_names_alone=*/false);
}

Result<void> could_authorize_service(const Service& service, const Call& caller, const Action& action,
                                     std::string_view bucket) {
  const Asked asked{action};
  return ask_service(service, caller, asked, bucket, /*by_names_alone=*/true);
}

Task<Result<BucketAccessPtr>> authorize_bucket(Service& service, const Call& caller, const std::string& bucket,
                                               const Action& action) {
  VB_CO_TRY(check_bucket_name(bucket));
  VB_CO_ASSIGN(BucketAccessPtr access, co_await bucket_access(service, bucket));
  const Asked asked{action};
  VB_CO_TRY(authorize(service, caller, *access, asked));
  if (action.owners_account && !owns(principal_of(caller), access->owner)) {
    co_return fail(Errc::method_not_allowed, "authorize: not the owner's account");
  }
  co_return access;
}

Task<Result<void>> check_expected_owner(Service& service, const std::string& bucket, std::string_view account) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  if (account == access->owner || (!account.empty() && account == access->owner_id)) co_return Result<void>();
  co_return fail(Errc::access_denied, "another owner is expected");
}

Error missing_error(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked,
                    const Error& error) {
  const bool missing = error == Errc::no_such_key || error == Errc::no_such_version ||
                       error == Errc::method_not_allowed || error == Errc::no_such_upload;
  if (!missing) return error;
  constexpr Error denied{Errc::access_denied, 0, "authorize"};
  const auto decision = ask(service, caller, access, asked);
  if (decision == auth::Decision::denied) return denied;
  // Whether the caller may list that name, although the request is no listing.
  const Listing list{.prefix = asked.key};
  const Asked listing{.action = action::list, .list = &list};
  return authorize(service, caller, access, listing) ? error : denied;
}

Result<store::Attributes> authorize_new_object(const Service& service, const Call& caller, const BucketAccess& access,
                                               const Asked& asked, const AclWish& wish) {
  VB_TRY(authorize(service, caller, access, asked));
  // The ACL of most objects: it is not stored.
  const bool private_list = !wish.any() && (!access.lists_count() || owner_of(caller) == access.owner);
  Acl acl;
  if (!private_list) {
    VB_ASSIGN(acl, new_object_acl(caller, access, wish));
  }
  // Other properties of the new object have actions of their own.
  const auto besides = [&](const Action& action) {
    const Asked more{.action = action, .key = asked.key, .tags = asked.tags, .lock = asked.lock};
    return authorize_besides(service, caller, access, more);
  };
  const bool listed = !private_list && access.lists_count() && !is_private(acl);
  const bool retained = asked.lock != nullptr && asked.lock->mode != store::LockMode::none;
  const bool held = asked.lock != nullptr && asked.lock->legal_hold;
  if (listed) VB_TRY(besides(action::put_object_acl));
  if (asked.tags != nullptr && !asked.tags->empty()) VB_TRY(besides(action::put_object_tagging));
  if (retained) VB_TRY(besides(action::put_retention));
  if (held) VB_TRY(besides(action::put_legal_hold));
  if (private_list) return store::Attributes();
  return acl_attributes(access, acl);
}

// A writer from another account cannot set locks.
Result<void> authorize_besides(const Service& service, const Call& caller, const BucketAccess& access,
                               const Asked& asked) {
  const bool locks =
      asked.action.name == action::put_retention.name || asked.action.name == action::put_legal_hold.name;
  const bool must_be_allowed = locks || owns(principal_of(caller), access.owner);
  const auto decision = ask(service, caller, access, asked);
  if (decision == auth::Decision::allowed) return {};
  if (decision == auth::Decision::refused && !must_be_allowed) return {};
  return fail(Errc::access_denied, "authorize: what comes with the object");
}

Result<Acl> allowed_acl(const BucketAccess& access, Acl acl, const AclWish& wish) {
  if (!access.lists_count()) {
    if (is_private(acl) || wish.canned == "bucket-owner-full-control") return private_acl(acl.owner);
    return fail(Errc::acl_not_supported, "acl: bucket owner enforced");
  }
  if (access.block.block_acls && is_public(acl)) return fail(Errc::access_denied, "acl: public lists are blocked");
  return acl;
}

Acl object_acl(const BucketAccess& access, const store::ObjectInfo& object) {
  const std::string* const text = store::find_attribute(object.attributes, acl_attribute);
  if (text == nullptr || !access.lists_count()) return private_acl(access.owner);
  auto acl = decode_acl(*text);
  // An unreadable ACL grants nothing: only the bucket's owner has access.
  return acl ? std::move(*acl) : private_acl(access.owner);
}

std::string_view owner_of(const BucketAccess& access, const store::ObjectInfo& object) {
  const std::string* const text = store::find_attribute(object.attributes, acl_attribute);
  return owner_by(access, text == nullptr ? std::string_view() : std::string_view(*text));
}

std::string_view owner_attribute() { return acl_attribute; }

std::string_view owner_by(const BucketAccess& access, std::string_view attribute) {
  return attribute.empty() || !access.lists_count() ? std::string_view(access.owner) : encoded_owner(attribute);
}

store::Attributes acl_attributes(const BucketAccess& access, const Acl& acl) {
  if (acl == private_acl(access.owner)) return {};
  return {{std::string(acl_attribute), encode_acl(acl)}};
}

store::Attributes acl_change(const BucketAccess& access, const Acl& acl) {
  auto attributes = acl_attributes(access, acl);
  if (attributes.empty()) attributes.emplace_back(acl_attribute, std::string());
  return attributes;
}

}  // namespace verbena::s3
