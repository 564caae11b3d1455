// OpenID Connect providers of an account.
#include <algorithm>

#include "auth/identifiers.h"
#include "base/hex.h"
#include "iam/actions.h"
#include "iam/subjects.h"
#include "sign_in/claims.h"

namespace verbena::iam {
namespace {

using auth::AccountEntry;
using auth::OpenIdProvider;

constexpr std::string_view scheme = "https://";
constexpr size_t url_bytes_max = 255, client_id_bytes_max = 255, thumbprint_digits = 40;

std::string arn_of(const Call& call, std::string_view url) {
  return auth::arn_of(call.account->account->id, "oidc-provider", "/", url);
}

// Without the scheme. Query and fragment are not part of an issuer's name (OpenID Connect Core, section 2).
Result<std::string> read_url(const Call& call) {
  const std::string_view url = call.get("Url");
  const bool sound =
      url.size() > scheme.size() && url.size() <= url_bytes_max && url.starts_with(scheme) &&
      url[scheme.size()] != '/' && std::ranges::all_of(url, [](char c) {
        return c > 0x20 && c < 0x7f && std::string_view("?#@\"<>\\^`{|}").find(c) == std::string_view::npos;
      });
  if (!sound)
    return call.refuse(Errc::validation_error, "Url must be an https URL without query, of at most 255 bytes.");
  // The name precedes those of its claims in condition keys.
  if (!sign_in::may_name_keys(url.substr(scheme.size()))) {
    return call.refuse(Errc::validation_error, "Url must have a host with a period, a port or a path.");
  }
  return std::string(url.substr(scheme.size()));
}

Result<void> check_client_id(const Call& call, std::string_view id) {
  if (!id.empty() && is_text(id, client_id_bytes_max)) return {};
  return call.refuse(Errc::validation_error, "A client id must have 1 to 255 bytes.");
}

Result<std::vector<std::string>> read_thumbprints(const Call& call) {
  VB_ASSIGN(auto thumbprints, call.parameters.members("ThumbprintList", "", auth::thumbprints_max));
  for (const std::string& one : thumbprints) {
    if (one.size() != thumbprint_digits || !is_hex(one)) {
      return call.refuse(Errc::validation_error, "A thumbprint must be 40 hexadecimal digits.");
    }
  }
  return thumbprints;
}

std::unexpected<Error> not_found(const Call& call) {
  return call.refuse(Errc::no_such_entity,
                     "OpenIDConnect Provider not found for arn " + std::string(call.get("OpenIDConnectProviderArn")));
}

void write_list(s3::XmlWriter& xml, std::string_view element, const std::vector<std::string>& texts) {
  xml.open(element);
  for (const std::string& text : texts) xml.element("member", text);
  xml.close();
}

template <class Account>
auto find_provider(const Call& call, Account& account) -> Result<decltype(&account.open_id_providers.begin()->second)> {
  const std::string_view arn = call.get("OpenIDConnectProviderArn");
  const std::string prefix = arn_of(call, "");
  if (!arn.starts_with(prefix)) return not_found(call);
  const auto found = account.open_id_providers.find(std::string(arn.substr(prefix.size())));
  if (found == account.open_id_providers.end()) return not_found(call);
  return &found->second;
}

}  // namespace

Result<const OpenIdProvider*> find_asked_provider(const Call& call, const AccountEntry& account) {
  return find_provider(call, account);
}

Result<OpenIdProvider*> find_asked_provider(const Call& call, AccountEntry& account) {
  return find_provider(call, account);
}

std::string provider_arn(const Call& call) {
  const auto arn = call.parameters.get("OpenIDConnectProviderArn");
  if (arn) return std::string(*arn);
  const std::string_view url = call.get("Url");
  return arn_of(call, url.starts_with(scheme) ? url.substr(scheme.size()) : url);
}

Result<void> create_open_id_provider(Call& call) {
  OpenIdProvider provider;
  VB_ASSIGN(provider.url, read_url(call));
  VB_ASSIGN(provider.client_ids, call.parameters.members("ClientIDList", "", auth::client_ids_max));
  for (const std::string& id : provider.client_ids) VB_TRY(check_client_id(call, id));
  VB_ASSIGN(provider.thumbprints, read_thumbprints(call));
  VB_ASSIGN(provider.tags, authorize_new_tags(call, "iam:TagOpenIDConnectProvider"));
  provider.id = auth::make_id("OIDC");
  provider.created_s = call.now_s();
  VB_TRY(call.change([&](AccountEntry& account) -> Result<void> {
    if (account.open_id_providers.contains(provider.url)) {
      return call.refuse(Errc::entity_already_exists, "Provider with url https://" + provider.url + " already exists.");
    }
    if (account.open_id_providers.size() >= auth::open_id_providers_max) {
      return call.too_many("OpenIdConnectProvidersPerAccount", auth::open_id_providers_max);
    }
    account.open_id_providers.emplace(provider.url, provider);
    return {};
  }));
  call.xml.element("OpenIDConnectProviderArn", arn_of(call, provider.url));
  write_tags(call.xml, provider.tags);
  return {};
}

Result<void> get_open_id_provider(Call& call) {
  VB_ASSIGN(const OpenIdProvider* provider, find_provider(call, *call.account));
  call.xml.element("Url", provider->url);
  write_list(call.xml, "ClientIDList", provider->client_ids);
  write_list(call.xml, "ThumbprintList", provider->thumbprints);
  write_date(call.xml, "CreateDate", provider->created_s);
  write_tags(call.xml, provider->tags);
  return {};
}

Result<void> list_open_id_providers(Call& call) {
  call.xml.open("OpenIDConnectProviderList");
  for (const auto& [url, provider] : call.account->open_id_providers) {
    call.xml.open("member");
    call.xml.element("Arn", arn_of(call, url));
    call.xml.close();
  }
  call.xml.close();
  return {};
}

Result<void> delete_open_id_provider(Call& call) {
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(const OpenIdProvider* provider, find_asked_provider(call, account));
    account.open_id_providers.erase(std::string(provider->url));
    return {};
  });
}

Result<void> add_client_id(Call& call) {
  const std::string id(call.get("ClientID"));
  VB_TRY(check_client_id(call, id));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(OpenIdProvider * provider, find_asked_provider(call, account));
    auto& ids = provider->client_ids;
    if (std::ranges::find(ids, id) != ids.end()) return {};  // as at AWS: no error
    if (ids.size() >= auth::client_ids_max)
      return call.too_many("ClientIdsPerOpenIdConnectProvider", auth::client_ids_max);
    ids.push_back(id);
    return {};
  });
}

Result<void> remove_client_id(Call& call) {
  const std::string_view id = call.get("ClientID");
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(OpenIdProvider * provider, find_asked_provider(call, account));
    std::erase(provider->client_ids, id);
    return {};
  });
}

Result<void> update_thumbprints(Call& call) {
  VB_ASSIGN(const auto thumbprints, read_thumbprints(call));
  return call.change([&](AccountEntry& account) -> Result<void> {
    VB_ASSIGN(OpenIdProvider * provider, find_asked_provider(call, account));
    provider->thumbprints = thumbprints;
    return {};
  });
}

}  // namespace verbena::iam
