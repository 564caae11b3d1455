// Access control lists: their values, stored form, XML and headers. Source: Amazon S3 User Guide, "Access control list
// (ACL) overview".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/principal.h"
#include "base/result.h"
#include "s3/grant.h"
#include "s3/service.h"
#include "s3/xml.h"

namespace verbena::s3 {

// The canonical id that owns objects written by anonymous callers.
inline constexpr std::string_view anonymous_owner = "anonymous";

// A list that gives all rights to the owner and none to others.
Acl private_acl(std::string_view owner);
bool is_private(const Acl& acl);

// Whether it has grants to all users or all authenticated users.
bool is_public(const Acl& acl);

// Whether the list gives `permission` to the caller (null: anonymous). `groups`: whether grants to groups count.
auth::Reach reach_of(const Acl& acl, Permission permission, const auth::Principal* principal, bool groups);

// The stored form, one grant per line.
std::string encode_acl(const Acl& acl);
// nullopt for text that no server has written.
std::optional<Acl> decode_acl(std::string_view text);
// The owner in the stored form; empty if decode_acl() would fail.
std::string_view encoded_owner(std::string_view text);

// `owner`: of the new object or bucket. `bucket_owner`: of its bucket.
Acl make_acl(const AclWish& wish, std::string_view owner, std::string_view bucket_owner);

// One grant. invalid_argument: no such group; invalid_grantee: no such account; unresolvable_email.
Result<Grant> group_grant(std::string_view uri, Permission permission);
Result<Grant> account_grant(const Service& service, std::string_view canonical_id, Permission permission);
Result<Grant> email_grant(const Service& service, std::string_view email, Permission permission);

// <AccessControlPolicy> of a request. malformed_acl, invalid_grantee, unresolvable_email.
Result<Acl> parse_acl(const Service& service, std::string_view text);
std::string acl_xml(const Service& service, const Acl& acl);

// The account of a canonical id; nullptr if there is none.
auth::AccountPtr find_account(const Service& service, std::string_view canonical_id);
// The contents of <Owner>, <Initiator> and <Grantee>.
void write_account(XmlWriter& xml, const Service& service, std::string_view canonical_id);
void write_owner(XmlWriter& xml, std::string_view element, const Service& service, std::string_view canonical_id);

}  // namespace verbena::s3
