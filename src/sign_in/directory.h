// Users of a directory (LDAP), by name and password.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include <atomic>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "sign_in/claims.h"
#include "sign_in/directory_settings.h"
#include "sign_in/ldap_library.h"
#include "sign_in/ldap_session.h"
#include "sign_in/password_tries.h"

namespace verbena::sign_in {

// A user, spelled as in the directory, whatever was typed.
struct Person {
  std::string name;                 // also of the session
  std::string dn;                   // of the entry
  std::vector<std::string> groups;  // names of their entries
};

class Directory {
 public:
  // Loads the library. The error is a sentence for operators. `clock` outlives it.
  static std::expected<std::unique_ptr<Directory>, std::string> open(DirectorySettings settings,
                                                                     const WallClock& clock);

  // Blocks, for the configured time at most. All refusals look the same, whatever the reason. `client`: the address, as
  // from client_of(); empty: this host.
  std::expected<Person, Refusal> check(const std::string& client, const std::string& name, const Secret& password);
  // Aborts checks in progress, permanently.
  void stop() { stopping_ = true; }

  const DirectorySettings& settings() const { return settings_; }

 private:
  Directory(const LdapLibrary& library, DirectorySettings settings, const WallClock& clock)
      : library_(library),
        settings_(std::move(settings)),
        tries_(clock, {.name = {.tries_max = settings_.tries, .forgiven_s = settings_.tries_every.count()}}) {}
  Result<std::unique_ptr<LdapSession>> connect();
  // An empty name in the result: the name or the password is wrong.
  Result<Person> ask(const std::string& name, const Secret& password);
  Result<Person> ask_by_lookup(LdapSession& session, const std::string& name, const Secret& password);
  Result<Person> ask_by_form(LdapSession& session, const std::string& name, const Secret& password);
  Result<void> bind_as_lookup(LdapSession& session);
  Result<void> add_groups(LdapSession& session, Person& person);
  void complain(const std::string& what);

  const LdapLibrary& library_;
  const DirectorySettings settings_;
  std::optional<boost::asio::ssl::context> tls_;
  std::atomic<bool> stopping_ = false;
  PasswordTries tries_;
  std::atomic<int64_t> complain_at_ms_ = 0;
};

}  // namespace verbena::sign_in
