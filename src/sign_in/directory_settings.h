// The configured directory, checked.
#pragma once

#include <chrono>
#include <expected>
#include <string>

#include "base/config.h"
#include "base/secret.h"

namespace verbena::sign_in {

struct DirectorySettings {
  std::string name, host;
  uint16_t port = 0;
  enum class Tls : uint8_t { from_the_start, by_start_tls, none } tls = Tls::by_start_tls;
  std::string ca_file;
  std::string user_dn;  // empty: users are searched for
  std::string lookup_dn, user_base, user_filter;
  Secret lookup_password;
  std::string user_attribute;
  std::string group_base, group_filter;  // no base: no groups
  std::string role;
  std::chrono::seconds timeout{};
  unsigned tries = 4;  // Config::SignIn::Ldap
  std::chrono::seconds tries_every{300};
  std::string tag;  // changes when another directory, or other entries, are configured
};

// The error names the key.
std::expected<DirectorySettings, std::string> read_directory_settings(const Config::SignIn::Ldap& config);

}  // namespace verbena::sign_in
