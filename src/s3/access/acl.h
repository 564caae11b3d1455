// Access control lists: what they are, how they are kept, written and read.
// Source: Amazon S3 User Guide, "Access control list (ACL) overview".
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

// The canonical id of the owner of objects that anonymous callers have written.
inline constexpr std::string_view anonymous_owner = "anonymous";

// The owner alone may do everything.
Acl private_acl(std::string_view owner);
bool is_private(const Acl& acl);

// Grants to all or all authenticated users.
bool is_public(const Acl& acl);

// How far `permission` reaches who asks (null: anonymous). `groups`: whether grants to groups count.
auth::Reach reach_of(const Acl& acl, Permission permission, const auth::Principal* principal, bool groups);

// As it is kept, one line each.
std::string encode_acl(const Acl& acl);
// nullopt for what no server has written.
std::optional<Acl> decode_acl(std::string_view text);
// The owner of what decode_acl() would read; empty when it would not.
std::string_view encoded_owner(std::string_view text);

// `owner` is the new thing's, `bucket_owner` the bucket's.
Acl make_acl(const AclWish& wish, std::string_view owner, std::string_view bucket_owner);

// One grant. invalid_argument: no such group; invalid_grantee: no such account; unresolvable_email.
Result<Grant> group_grant(std::string_view uri, Permission permission);
Result<Grant> account_grant(const Service& service, std::string_view canonical_id, Permission permission);
Result<Grant> email_grant(const Service& service, std::string_view email, Permission permission);

// <AccessControlPolicy> of a request. malformed_acl, invalid_grantee, unresolvable_email.
Result<Acl> parse_acl(const Service& service, std::string_view text);
std::string acl_xml(const Service& service, const Acl& acl);

// Of that canonical id; nullptr when there is none.
auth::AccountPtr find_account(const Service& service, std::string_view canonical_id);
// <Owner>, <Initiator>, <Grantee>'s inside.
void write_account(XmlWriter& xml, const Service& service, std::string_view canonical_id);
void write_owner(XmlWriter& xml, std::string_view element, const Service& service, std::string_view canonical_id);

}  // namespace verbena::s3
