#include "s3_http/acl_requests.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/text.h"
#include "s3/access/acl.h"
#include "s3/access/authorize.h"
#include "s3_http/context.h"

namespace verbena::s3 {
namespace {

constexpr size_t acl_document_max = 64 * KiB;

struct GrantHeader {
  std::string_view name;
  Permission permission;
};
constexpr std::array<GrantHeader, 5> grant_headers = {{
    {"x-amz-grant-read", Permission::read},
    {"x-amz-grant-write", Permission::write},
    {"x-amz-grant-read-acp", Permission::read_acp},
    {"x-amz-grant-write-acp", Permission::write_acp},
    {"x-amz-grant-full-control", Permission::full_control},
}};

// One grantee of a header: id="...", uri="..." or emailAddress="...", with or without the quotes.
Result<Grant> parse_header_grantee(const Service& service, std::string_view text, Permission permission) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return fail(Errc::invalid_argument, "Argument format not recognized.");
  const std::string type = lower(trim(text.substr(0, equals)));
  std::string_view value = trim(text.substr(equals + 1));
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  if (type == "id") return account_grant(service, value, permission);
  if (type == "uri") return group_grant(value, permission);
  if (type == "emailaddress") return email_grant(service, value, permission);
  return fail(Errc::invalid_argument, "Argument format not recognized.");
}

Result<void> add_header_grants(const Service& service, std::string_view header, Permission permission,
                               std::vector<Grant>& grants) {
  while (!trim(header).empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    VB_ASSIGN(Grant grant, parse_header_grantee(service, trim(header.substr(0, comma)), permission));
    if (grants.size() == grants_max)
      return fail(Errc::invalid_request, "An access control list has 100 grants at most.");
    grants.push_back(std::move(grant));
    header.remove_prefix(std::min(comma + 1, header.size()));
  }
  return {};
}

}  // namespace

Result<AclWish> read_acl_headers(const Context& context) {
  AclWish wish;
  wish.canned = context.header("x-amz-acl").value_or("");
  for (const GrantHeader& form : grant_headers) {
    if (const auto header = context.header(form.name)) {
      VB_TRY(add_header_grants(context.service, *header, form.permission, wish.grants));
    }
  }
  if (!wish.canned.empty() && !wish.grants.empty()) {
    return fail(Errc::invalid_request, "Specifying both Canned ACLs and Header Grants is not allowed.");
  }
  return wish;
}

Task<Result<AclRequest>> read_acl_request(Context& context) {
  AclRequest request;
  VB_CO_ASSIGN(request.wish, read_acl_headers(context));
  VB_CO_ASSIGN(request.text, co_await read_document(context, acl_document_max));
  co_return request;
}

Result<Acl> wanted_acl(const Context& context, const AclRequest& request, const BucketAccess& access,
                       std::string_view owner) {
  if (request.wish.any()) return allowed_acl(access, make_acl(request.wish, owner, access.owner), request.wish);
  VB_ASSIGN(Acl acl, parse_acl(context.service, request.text));
  if (acl.owner != owner) return fail(Errc::access_denied, "acl: the owner does not change");
  return allowed_acl(access, std::move(acl), request.wish);
}

}  // namespace verbena::s3
