#include "s3/access/acl.h"

#include <algorithm>
#include <array>

#include "auth/auth.h"
#include "base/text.h"
#include "s3/access/grants_xml.h"
#include "s3/service.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

struct NamedPermission {
  std::string_view name;  // in XML
  Permission permission;
  char letter;  // in the stored form
};
constexpr std::array<NamedPermission, 5> permissions = {{
    {"READ", Permission::read, 'r'},
    {"WRITE", Permission::write, 'w'},
    {"READ_ACP", Permission::read_acp, 'R'},
    {"WRITE_ACP", Permission::write_acp, 'W'},
    {"FULL_CONTROL", Permission::full_control, 'F'},
}};

struct NamedGroup {
  std::string_view uri;
  Grant::To to;
  char letter;
};
constexpr std::array<NamedGroup, 3> groups = {{
    {"http://acs.amazonaws.com/groups/global/AllUsers", Grant::To::all_users, 'A'},
    {"http://acs.amazonaws.com/groups/global/AuthenticatedUsers", Grant::To::authenticated_users, 'U'},
    {"http://acs.amazonaws.com/groups/s3/LogDelivery", Grant::To::log_delivery, 'L'},
}};
constexpr char account_letter = 'c';

const NamedPermission& form_of(Permission permission) {
  const auto it = std::ranges::find(permissions, permission, &NamedPermission::permission);
  return it == permissions.end() ? permissions.front() : *it;
}

Result<Grant> parse_grant(const Service* service, const pugi::xml_node& node) {
  const std::string name = trimmed_text(node.child("Permission"));
  const auto form = std::ranges::find(permissions, name, &NamedPermission::name);
  const auto grantee = node.child("Grantee");
  if (form == permissions.end() || !grantee) return fail(Errc::malformed_acl, "acl: Grant");
  std::string_view type;
  for (const auto& attribute : grantee.attributes()) {
    const std::string_view attribute_name = attribute.name();
    if (attribute_name == "type" || attribute_name.ends_with(":type")) type = attribute.value();
  }
  if (type == "CanonicalUser") {
    std::string id = trimmed_text(grantee.child("ID"));
    if (service == nullptr) return Grant{Grant::To::account, std::move(id), form->permission};
    return account_grant(*service, id, form->permission);
  }
  if (type == "Group") return group_grant(trimmed_text(grantee.child("URI")), form->permission);
  if (type == "AmazonCustomerByEmail" && service != nullptr) {
    return email_grant(*service, trimmed_text(grantee.child("EmailAddress")), form->permission);
  }
  return fail(Errc::malformed_acl, "acl: Grantee");
}

bool gives(Permission granted, Permission wanted) { return granted == wanted || granted == Permission::full_control; }

}  // namespace

Result<Grant> group_grant(std::string_view uri, Permission permission) {
  const auto it = std::ranges::find(groups, uri, &NamedGroup::uri);
  if (it == groups.end()) return fail(Errc::invalid_argument, "Invalid group uri.");
  return Grant{it->to, {}, permission};
}

Result<Grant> account_grant(const Service& service, std::string_view canonical_id, Permission permission) {
  const auto account = find_account(service, canonical_id);
  if (account == nullptr) return fail(Errc::invalid_grantee, "acl: unknown account");
  return Grant{Grant::To::account, account->canonical_id, permission};
}

Result<Grant> email_grant(const Service& service, std::string_view email, Permission permission) {
  const auto account = service.accounts == nullptr ? nullptr : service.accounts->by_email(lower(email));
  if (account == nullptr) return fail(Errc::unresolvable_email, "acl: unknown email address");
  return Grant{Grant::To::account, account->canonical_id, permission};
}

Acl private_acl(std::string_view owner) {
  return {std::string(owner), {{Grant::To::account, std::string(owner), Permission::full_control}}};
}

bool is_private(const Acl& acl) { return acl == private_acl(acl.owner); }

bool is_public(const Acl& acl) {
  return std::ranges::any_of(acl.grants, [](const Grant& grant) {
    return grant.to == Grant::To::all_users || grant.to == Grant::To::authenticated_users;
  });
}

auth::Reach reach_of(const Acl& acl, Permission permission, const auth::Principal* principal, bool count_groups) {
  auto reach = auth::Reach::none;
  if (permission == Permission::none) return reach;
  for (const Grant& grant : acl.grants) {
    if (!gives(grant.permission, permission)) continue;
    if (grant.to == Grant::To::account) {
      if (principal != nullptr && principal->account->canonical_id == grant.account) {
        reach = std::max(reach, auth::Reach::account);
      }
    } else if (count_groups && (grant.to == Grant::To::all_users ||
                                (grant.to == Grant::To::authenticated_users && principal != nullptr))) {
      reach = std::max(reach, auth::Reach::principal);
    }
  }
  return reach;
}

std::string encode_acl(const Acl& acl) {
  std::string text = acl.owner;
  for (const Grant& grant : acl.grants) {
    text += '\n';
    text += form_of(grant.permission).letter;
    if (grant.to == Grant::To::account) {
      text += account_letter;
      text += grant.account;
    } else {
      text += std::ranges::find(groups, grant.to, &NamedGroup::to)->letter;
    }
  }
  return text;
}

std::string_view encoded_owner(std::string_view text) { return text.substr(0, text.find('\n')); }

std::optional<Acl> decode_acl(std::string_view text) {
  Acl acl;
  acl.owner = encoded_owner(text);
  if (acl.owner.empty()) return std::nullopt;
  text.remove_prefix(acl.owner.size());
  while (!text.empty()) {
    text.remove_prefix(1);  // the line end
    const std::string_view line = encoded_owner(text);
    text.remove_prefix(line.size());
    if (line.size() < 2 || acl.grants.size() == grants_max) return std::nullopt;
    const auto form = std::ranges::find(permissions, line[0], &NamedPermission::letter);
    if (form == permissions.end()) return std::nullopt;
    Grant grant{Grant::To::account, {}, form->permission};
    if (line[1] == account_letter) {
      grant.account = line.substr(2);
    } else {
      const auto group = std::ranges::find(groups, line[1], &NamedGroup::letter);
      if (group == groups.end()) return std::nullopt;
      grant.to = group->to;
    }
    acl.grants.push_back(std::move(grant));
  }
  return acl;
}

Acl make_acl(const AclWish& wish, std::string_view owner, std::string_view bucket_owner) {
  if (!wish.grants.empty()) return {std::string(owner), wish.grants};
  Acl acl = private_acl(owner);
  const auto add = [&](Grant::To to, Permission permission) { acl.grants.push_back({to, {}, permission}); };
  const auto add_bucket_owner = [&](Permission permission) {
    if (bucket_owner != owner) acl.grants.push_back({Grant::To::account, std::string(bucket_owner), permission});
  };
  if (wish.canned == "public-read") {
    add(Grant::To::all_users, Permission::read);
  } else if (wish.canned == "public-read-write") {
    add(Grant::To::all_users, Permission::read);
    add(Grant::To::all_users, Permission::write);
  } else if (wish.canned == "authenticated-read") {
    add(Grant::To::authenticated_users, Permission::read);
  } else if (wish.canned == "bucket-owner-read") {
    add_bucket_owner(Permission::read);
  } else if (wish.canned == "bucket-owner-full-control") {
    add_bucket_owner(Permission::full_control);
  } else if (wish.canned == "log-delivery-write") {
    add(Grant::To::log_delivery, Permission::write);
    add(Grant::To::log_delivery, Permission::read_acp);
  }
  return acl;
}

Result<Acl> parse_acl(const Service& service, std::string_view text) {
  pugi::xml_document document;
  const auto root = load_xml(document, text, "AccessControlPolicy");
  if (!root) return fail(Errc::malformed_acl, "acl: syntax");
  const pugi::xml_node list = root->child("AccessControlList");
  Acl acl;
  acl.owner = trimmed_text(root->child("Owner").child("ID"));
  if (!list || acl.owner.empty()) return fail(Errc::malformed_acl, "acl: Owner, AccessControlList");
  VB_ASSIGN(acl.grants, parse_grants(&service, list));
  return acl;
}

Result<std::vector<Grant>> parse_grants(const Service* service, const pugi::xml_node& list) {
  std::vector<Grant> grants;
  for (const auto& node : list.children("Grant")) {
    if (grants.size() == grants_max) return fail(Errc::malformed_acl, "acl: too many grants");
    VB_ASSIGN(Grant grant, parse_grant(service, node));
    grants.push_back(std::move(grant));
  }
  return grants;
}

auth::AccountPtr find_account(const Service& service, std::string_view canonical_id) {
  if (canonical_id == auth::root_canonical_id) return auth::root_account();
  return service.accounts == nullptr ? nullptr : service.accounts->by_canonical_id(canonical_id);
}

void write_account(XmlWriter& xml, const Service& service, std::string_view canonical_id) {
  const auto account = find_account(service, canonical_id);
  xml.element("ID", canonical_id);
  // For a removed account only the id is known.
  xml.element("DisplayName", account == nullptr ? canonical_id : std::string_view(account->display_name));
}

void write_owner(XmlWriter& xml, std::string_view element, const Service& service, std::string_view canonical_id) {
  xml.open(element);
  write_account(xml, service, canonical_id);
  xml.close();
}

static void write_grant(XmlWriter& xml, const Service& service, const Grant& grant) {
  xml.open("Grant");
  const bool account = grant.to == Grant::To::account;
  xml.open_with("Grantee", account
                               ? "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\""
                               : "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"");
  if (account) {
    write_account(xml, service, grant.account);
  } else {
    xml.element("URI", std::ranges::find(groups, grant.to, &NamedGroup::to)->uri);
  }
  xml.close();
  xml.element("Permission", form_of(grant.permission).name);
  xml.close();
}

void write_grants(XmlWriter& xml, const Service& service, const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) write_grant(xml, service, grant);
}

std::string acl_xml(const Service& service, const Acl& acl) {
  XmlWriter xml("AccessControlPolicy");
  write_owner(xml, "Owner", service, acl.owner);
  xml.open("AccessControlList");
  write_grants(xml, service, acl.grants);
  return xml.finish();
}

}  // namespace verbena::s3
