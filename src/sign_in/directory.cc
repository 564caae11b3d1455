#include "sign_in/directory.h"

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "net/tls.h"
#include "sign_in/ldap_text.h"
#include "sign_in/session_name.h"

namespace verbena::sign_in {
namespace {

using Tls = DirectorySettings::Tls;
using Why = Refusal::Kind;

constexpr int groups_max = 1000;
constexpr size_t directory_password_bytes_max = 1024;
constexpr int64_t complain_every_ms = 10'000;

// An empty password would be an anonymous bind, and one with a NUL would be cut by readers that use C strings.
bool can_be_a_password(std::string_view text) {
  return !text.empty() && text.size() <= directory_password_bytes_max && text.find('\0') == std::string_view::npos;
}

Result<Person> person_of(const LdapEntry& entry) {
  if (entry.values.size() == 1 && can_name_a_session(entry.values.front())) {
    return Person{entry.values.front(), entry.dn, {}};
  }
  return fail(
      Errc::malformed,
      "an entry whose sign_in.ldap.user_attribute is not one value of at most 64 characters [A-Za-z0-9_+=,.@-]");
}

}  // namespace

std::expected<std::unique_ptr<Directory>, std::string> Directory::open(DirectorySettings settings,
                                                                       const WallClock& clock) {
  const auto library = load_ldap_library();
  if (!library) return std::unexpected("sign_in.ldap.url: " + library.error());
  const bool secure = settings.tls != Tls::none;
  auto made = std::unique_ptr<Directory>(new Directory(**library, std::move(settings), clock));
  if (!secure) return made;
  auto tls = net::make_client_tls({.ca_file = made->settings_.ca_file});
  if (tls) {
    made->tls_ = std::move(*tls);
    return made;
  }
  return std::unexpected("sign_in.ldap.ca_file: " + made->settings_.ca_file + " is not a PEM file of certificates");
}

Result<std::unique_ptr<LdapSession>> Directory::connect() {
  VB_ASSIGN(auto stream,
            LdapStream::connect(settings_.host, settings_.port, deadline_in(settings_.timeout), stopping_));
  if (settings_.tls == Tls::from_the_start) VB_TRY(stream->start_tls(*tls_, settings_.host));
  VB_ASSIGN(auto session, LdapSession::open(library_, std::move(stream)));
  if (settings_.tls == Tls::by_start_tls) VB_TRY(session->start_tls(*tls_, settings_.host));
  return session;
}

Result<void> Directory::bind_as_lookup(LdapSession& session) {
  VB_ASSIGN(const bool in, session.bind(settings_.lookup_dn, settings_.lookup_password.text()));
  if (!in) return fail(Errc::bad_config, "the directory does not let sign_in.ldap.lookup_dn in");
  return {};
}

Result<Person> Directory::ask_by_lookup(LdapSession& session, const std::string& name, const Secret& password) {
  VB_TRY(bind_as_lookup(session));
  VB_ASSIGN(const auto found, session.search({.base = settings_.user_base,
                                              .filter = fill_form(settings_.user_filter, escape_filter_value(name), ""),
                                              .attribute = settings_.user_attribute}));
  // The password is tried for unknown users, too: otherwise the response time would reveal which users exist.
  std::string nobody = "cn=" + to_hex(Secret::random(16).bytes()) + "," + settings_.user_base;
  const std::string& dn = found.empty() ? nobody : found.front().dn;
  VB_ASSIGN(const bool in, session.bind(dn, password.text()));
  if (!in || found.empty()) return Person();
  VB_ASSIGN(Person person, person_of(found.front()));
  if (settings_.group_base.empty()) return person;
  VB_TRY(bind_as_lookup(session));
  VB_TRY(add_groups(session, person));
  return person;
}

Result<Person> Directory::ask_by_form(LdapSession& session, const std::string& name, const Secret& password) {
  const std::string dn = fill_form(settings_.user_dn, escape_dn_value(name), "");
  VB_ASSIGN(const bool in, session.bind(dn, password.text()));
  if (!in) return Person();
  VB_ASSIGN(
      const auto found,
      session.search({.base = dn, .below = false, .filter = "(objectClass=*)", .attribute = settings_.user_attribute}));
  if (found.empty()) return fail(Errc::malformed, "the directory shows people no entry of their own");
  VB_ASSIGN(Person person, person_of(found.front()));
  if (!settings_.group_base.empty()) VB_TRY(add_groups(session, person));
  return person;
}

Result<void> Directory::add_groups(LdapSession& session, Person& person) {
  const std::string filter =
      fill_form(settings_.group_filter, escape_filter_value(person.name), escape_filter_value(person.dn));
  // All groups or none: a policy may deny by a missing one.
  VB_ASSIGN(auto found, session.search({.base = settings_.group_base,
                                        .filter = filter,
                                        .attribute = "",
                                        .entries_max = groups_max,
                                        .all_here = true}));
  for (LdapEntry& entry : found) person.groups.push_back(std::move(entry.dn));
  return {};
}

Result<Person> Directory::ask(const std::string& name, const Secret& password) {
  VB_ASSIGN(const auto session, connect());
  return settings_.user_dn.empty() ? ask_by_lookup(*session, name, password) : ask_by_form(*session, name, password);
}

// Limited, since unauthenticated callers could fill the log.
void Directory::complain(const std::string& what) {
  const int64_t now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now().time_since_epoch()).count();
  int64_t at_ms = complain_at_ms_.load();
  if (now_ms < at_ms || !complain_at_ms_.compare_exchange_strong(at_ms, now_ms + complain_every_ms)) return;
  log::warn("sign-in: the directory {}:{} could not be asked: {}", settings_.host, settings_.port, what);
}

std::expected<Person, Refusal> Directory::check(const std::string& client, const std::string& name,
                                                const Secret& password) {
  const Refusal wrong{Why::denied, "The name or the password is wrong."};
  // No user has such a name or password, so refusing at once reveals nothing.
  if (!is_user_name(name) || !can_be_a_password(password.text())) return std::unexpected(wrong);
  const std::string key = lower(name);
  const auto charge = tries_.charge(client, key);
  if (!charge) {
    return std::unexpected(
        Refusal{Why::busy, "Too many wrong passwords for this name, from this address, or in all. Wait a while."});
  }
  auto person = ask(name, password);
  if (person && person->name.empty()) return std::unexpected(wrong);
  PasswordTries::give_back(*charge);
  if (person) {
    tries_.came_in(client, key);
    return std::move(*person);
  }
  if (!stopping_) complain(describe(person.error()));
  return std::unexpected(Refusal{Why::no_answer, "The directory could not be asked. The server's log says why."});
}

}  // namespace verbena::sign_in
