#include "sign_in/directory_settings.h"

#include <algorithm>
#include <utility>

#include "base/host_port.h"
#include "base/log.h"
#include "base/private_file.h"
#include "sign_in/ldap_text.h"

namespace verbena::sign_in {
namespace {

using Settings = DirectorySettings;
using Fault = std::unexpected<std::string>;

constexpr size_t password_bytes_max = 1024;
constexpr uint16_t ldap_port = 389, ldaps_port = 636;

// A trailing slash is allowed.
bool read_authority(std::string_view text, Settings& into) {
  if (text.ends_with('/')) text.remove_suffix(1);
  auto place = parse_host_port(text);
  if (!place) return false;
  into.host = std::move(place->host);
  if (place->port != 0) into.port = place->port;
  return true;
}

bool read_url(std::string_view url, bool insecure, Settings& into) {
  constexpr std::string_view plain = "ldap://", tls = "ldaps://";
  if (url.starts_with(tls)) {
    into.tls = Settings::Tls::from_the_start;
    into.port = ldaps_port;
    return read_authority(url.substr(tls.size()), into);
  }
  into.tls = insecure ? Settings::Tls::none : Settings::Tls::by_start_tls;
  into.port = ldap_port;
  return url.starts_with(plain) && read_authority(url.substr(plain.size()), into);
}

bool is_attribute(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// Whether its parentheses make it one filter; they have no other meaning there (RFC 4515 section 3).
bool is_filter_form(std::string_view text, std::string_view letters) {
  size_t open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++open;
    if (open == 0) return false;
    if (text[i] == ')' && --open == 0 && i + 1 != text.size()) return false;
  }
  return !text.empty() && open == 0 && is_form(text, letters);
}

std::expected<void, std::string> read_people(const Config::SignIn::Ldap& config, Settings& into) {
  const bool looks_up = !config.lookup_dn.empty();
  if (config.user_dn.empty() != looks_up) {
    return Fault(
        "sign_in.ldap.url: needs either sign_in.ldap.user_dn or sign_in.ldap.lookup_dn: where a person's entry is");
  }
  into.user_dn = config.user_dn;
  if (!looks_up) {
    if (is_form(config.user_dn, "s")) return {};
    return Fault("sign_in.ldap.user_dn: needs a %s, where the name stands, and no other %");
  }
  if (config.lookup_password_file.empty() || config.user_base.empty()) {
    return Fault("sign_in.ldap.lookup_dn: needs sign_in.ldap.lookup_password_file and sign_in.ldap.user_base, too");
  }
  if (!is_filter_form(config.user_filter, "s")) {
    return Fault("sign_in.ldap.user_filter: needs the form (ATTRIBUTE=%s), with no other %");
  }
  auto password = read_secret_line(config.lookup_password_file, password_bytes_max, not_for_others);
  if (!password) {
    return Fault("sign_in.ldap.lookup_password_file: " + log::printable(config.lookup_password_file, 256) + " " +
                 password.error());
  }
  into.lookup_dn = config.lookup_dn;
  into.lookup_password = std::move(*password);
  into.user_base = config.user_base;
  into.user_filter = config.user_filter;
  return {};
}

}  // namespace

std::expected<Settings, std::string> read_directory_settings(const Config::SignIn::Ldap& config) {
  Settings out;
  // Not shown: URLs may contain passwords.
  if (!read_url(config.url, config.insecure, out)) {
    return Fault("sign_in.ldap.url: not ldaps://HOST[:PORT] or ldap://HOST[:PORT]");
  }
  out.name = config.name;
  out.ca_file = config.ca_file;
  out.timeout = config.timeout;
  out.tries = config.tries;
  out.tries_every = config.tries_every;
  if (auto read = read_people(config, out); !read) return std::unexpected(std::move(read.error()));
  if (!is_attribute(config.user_attribute)) return Fault("sign_in.ldap.user_attribute: not an attribute's name");
  out.user_attribute = config.user_attribute;
  out.group_base = config.group_base;
  out.group_filter = config.group_filter;
  if (!is_filter_form(config.group_filter, "ds") && !is_filter_form(config.group_filter, "s")) {
    return Fault("sign_in.ldap.group_filter: needs the form (member=%d) or (memberUid=%s), with no other %");
  }
  constexpr std::string_view role_prefix = "arn:aws:iam::";
  if (!config.role.empty() && !config.role.starts_with(role_prefix)) {
    return Fault("sign_in.ldap.role: not the ARN of a role");
  }
  out.role = config.role;
  for (const std::string& part :
       {config.url, config.user_dn, config.user_base, config.user_filter, config.user_attribute}) {
    out.tag.append(part).append("\n");
  }
  return out;
}

}  // namespace verbena::sign_in
