#include "sign_in/directory_settings.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "auth/ip_range.h"
#include "base/fd.h"
#include "base/log.h"
#include "sign_in/ldap_text.h"

namespace verbena::sign_in {
namespace {

using Settings = DirectorySettings;
using Fault = std::unexpected<std::string>;

constexpr size_t password_bytes_max = 1024, host_name_bytes_max = 253;
constexpr uint16_t ldap_port = 389, ldaps_port = 636;

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= host_name_bytes_max && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

bool read_port(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port != 0;
}

// "host", "host:port", "[v6]:port"; a slash at the end is no harm.
bool read_authority(std::string_view text, Settings& into) {
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.starts_with('[')) {
    const size_t close = std::min(text.find(']'), text.size() - 1);
    into.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (into.host.find(':') == std::string::npos || !auth::parse_ip(into.host)) return false;
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    into.host = text.substr(0, colon);
    text.remove_prefix(colon);
    if (!is_host_name(into.host)) return false;
  }
  return text.empty() || (text.starts_with(':') && read_port(text.substr(1), into.port));
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

std::expected<Secret, std::string> read_password(const std::string& path) {
  const auto wrong = [&](const char* what) {
    return Fault("sign_in.ldap.lookup_password_file: " + log::printable(path, 256) + " " + what);
  };
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat is{};
  if (!file || ::fstat(file.get(), &is) != 0) return wrong("cannot be read");
  if (!S_ISREG(is.st_mode)) return wrong("is not a regular file");
  if ((is.st_mode & 0037) != 0) return wrong("is open to others: chmod 600 it, or 640");
  Secret read(password_bytes_max + 2);
  const ssize_t n = ::read(file.get(), read.writable().data(), read.size());
  if (n < 0) return wrong("cannot be read");
  std::string_view text = read.text().substr(0, static_cast<size_t>(n));
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty() || text.size() > password_bytes_max ||
      text.find_first_of(std::string_view("\n\0", 2)) != std::string_view::npos) {
    return wrong("must hold a password, one line of at most 1024 bytes");
  }
  return Secret(as_bytes(text));
}

bool is_attribute(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// Whether it is one filter by its parentheses, which stand for nothing else there (RFC 4515 section 3).
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
  auto password = read_password(config.lookup_password_file);
  if (!password) return std::unexpected(std::move(password.error()));
  into.lookup_dn = config.lookup_dn;
  into.lookup_password = std::move(*password);
  into.user_base = config.user_base;
  into.user_filter = config.user_filter;
  return {};
}

}  // namespace

std::expected<Settings, std::string> read_directory_settings(const Config::SignIn::Ldap& config) {
  Settings out;
  // Not shown: people put passwords into URLs.
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
