#include "sign_in/ldap_session.h"

#include <algorithm>

namespace verbena::sign_in {
namespace {

constexpr ber_len_t message_bytes_max = 256 * 1024;
constexpr int references_max = 100;
constexpr std::chrono::milliseconds ask_every{200};  // the interval of checks whether the server ends

LdapStream& stream_of(Sockbuf_IO_Desc* io) { return *static_cast<LdapStream*>(io->sbiod_pvt); }

int set_up(Sockbuf_IO_Desc* io, void* stream) {
  io->sbiod_pvt = stream;
  return 0;
}
int take_down(Sockbuf_IO_Desc*) { return 0; }
int control(Sockbuf_IO_Desc* io, int option, void*) {
  return option == LBER_SB_OPT_DATA_READY && stream_of(io).has_received() ? 1 : 0;
}
ber_slen_t read_from(Sockbuf_IO_Desc* io, void* into, ber_len_t size) { return stream_of(io).read(into, size); }
ber_slen_t write_to(Sockbuf_IO_Desc* io, void* from, ber_len_t size) { return stream_of(io).write(from, size); }
int close_it(Sockbuf_IO_Desc*) { return 0; }  // the stream has an owner

Sockbuf_IO stream_io{set_up, take_down, control, read_from, write_to, close_it};

// Result codes for users that may not sign in, or not now.
bool means_no(int code) {
  switch (code) {
    case LDAP_INVALID_CREDENTIALS:
    case LDAP_NO_SUCH_OBJECT:
    case LDAP_INAPPROPRIATE_AUTH:
    case LDAP_CONSTRAINT_VIOLATION:
    case LDAP_UNWILLING_TO_PERFORM:
    case LDAP_INSUFFICIENT_ACCESS:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::unique_ptr<LdapSession>> LdapSession::open(const LdapLibrary& library, std::unique_ptr<LdapStream> stream) {
  auto session = std::unique_ptr<LdapSession>(new LdapSession(library, std::move(stream)));
  const int fd = session->stream_->fd();
  if (library.init_fd(fd, LDAP_PROTO_EXT, nullptr, &session->handle_) != LDAP_SUCCESS) {
    return fail(Errc::internal, "ldap: a session");
  }
  const int version = LDAP_VERSION3;
  Sockbuf* buffer = nullptr;
  ber_len_t bytes_max = message_bytes_max;
  LDAP* const handle = session->handle_;
  const bool made =
      library.set_option(handle, LDAP_OPT_PROTOCOL_VERSION, &version) == LDAP_OPT_SUCCESS &&
      library.set_option(handle, LDAP_OPT_REFERRALS, LDAP_OPT_OFF) == LDAP_OPT_SUCCESS &&
      library.get_option(handle, LDAP_OPT_SOCKBUF, &buffer) == LDAP_OPT_SUCCESS && buffer != nullptr &&
      library.sockbuf_add_io(buffer, &stream_io, LBER_SBIOD_LEVEL_PROVIDER, session->stream_.get()) == 0 &&
      library.sockbuf_ctrl(buffer, LBER_SB_OPT_SET_MAX_INCOMING, &bytes_max) == 1;
  if (!made) return fail(Errc::internal, "ldap: a session's options");
  return session;
}

LdapSession::~LdapSession() {
  if (handle_ != nullptr) library_.unbind_ext(handle_, nullptr, nullptr);
}

Error LdapSession::broken(Error error) {
  broken_ = error;
  return error;
}

Result<LdapSession::Message> LdapSession::next(int id, int sent) {
  if (sent != LDAP_SUCCESS) {
    return std::unexpected(broken({Errc::connection_failed, 0, "ldap: the connection to the directory ended"}));
  }
  for (;;) {
    const auto left = stream_->until() - SteadyClock::now();
    if (stream_->stopped()) return std::unexpected(broken({Errc::cancelled, 0, "ldap: the server ends"}));
    if (left <= Deadline::duration::zero()) {
      return std::unexpected(broken({Errc::timed_out, 0, "ldap: the directory has not answered in time"}));
    }
    const auto slice =
        std::chrono::duration_cast<std::chrono::microseconds>(std::min<std::chrono::nanoseconds>(left, ask_every));
    timeval wait{.tv_sec = 0, .tv_usec = static_cast<suseconds_t>(slice.count()) + 1};
    LDAPMessage* message = nullptr;
    const int type = library_.result(handle_, id, LDAP_MSG_ONE, &wait, &message);
    if (type > 0) return Message(message, Freed{&library_});
    if (type < 0) {
      const bool late = SteadyClock::now() >= stream_->until();
      return std::unexpected(broken(late
                                        ? Error{Errc::timed_out, 0, "ldap: the directory has not answered in time"}
                                        : Error{Errc::connection_failed, 0,
                                                "ldap: the connection to the directory ended, or broke its protocol"}));
    }
  }
}

// The result code of an operation; the message still belongs to its owner.
Result<int> LdapSession::outcome(LDAPMessage* message) {
  int code = LDAP_OTHER;
  if (library_.parse_result(handle_, message, &code, nullptr, nullptr, nullptr, nullptr, 0) != LDAP_SUCCESS) {
    return std::unexpected(broken({Errc::malformed, 0, "ldap: an answer that cannot be parsed"}));
  }
  return code;
}

Result<int> LdapSession::wait(int id, int sent) {
  VB_ASSIGN(const Message message, next(id, sent));
  return outcome(message.get());
}

Result<void> LdapSession::start_tls(boost::asio::ssl::context& tls, const std::string& host) {
  if (broken_) return std::unexpected(*broken_);
  int id = 0;
  const int sent = library_.extended_operation(handle_, LDAP_EXOP_START_TLS, nullptr, nullptr, nullptr, &id);
  VB_ASSIGN(const int code, wait(id, sent));
  if (code != LDAP_SUCCESS) {
    return std::unexpected(broken({Errc::malformed, 0, "ldap: the directory refuses StartTLS"}));
  }
  auto begun = stream_->start_tls(tls, host);
  if (!begun) return std::unexpected(broken(begun.error()));
  return begun;
}

Result<bool> LdapSession::bind(const std::string& dn, std::string_view password) {
  if (broken_) return std::unexpected(*broken_);
  // A directory treats either of them as an anonymous bind, which succeeds (RFC 4513 section 5.1).
  if (dn.empty() || password.empty()) return false;
  berval credentials{.bv_len = password.size(), .bv_val = const_cast<char*>(password.data())};
  int id = 0;
  const int sent = library_.sasl_bind(handle_, dn.c_str(), LDAP_SASL_SIMPLE, &credentials, nullptr, nullptr, &id);
  // A name that the library rejects belongs to no user; the connection is unaffected.
  if (sent == LDAP_INVALID_DN_SYNTAX || sent == LDAP_PARAM_ERROR) return false;
  VB_ASSIGN(const int code, wait(id, sent));
  if (code == LDAP_SUCCESS) return true;
  if (means_no(code) || code == LDAP_INVALID_DN_SYNTAX) return false;
  return std::unexpected(broken({Errc::malformed, 0, library_.err2string(code)}));
}

LdapEntry LdapSession::read_entry(LDAPMessage* message, const std::string& attribute) {
  LdapEntry entry;
  if (char* const dn = library_.get_dn(handle_, message); dn != nullptr) {
    entry.dn = dn;
    library_.memfree(dn);
  }
  if (attribute.empty()) return entry;
  berval** const values = library_.get_values_len(handle_, message, attribute.c_str());
  for (berval** value = values; value != nullptr && *value != nullptr; ++value) {
    entry.values.emplace_back((*value)->bv_val, (*value)->bv_len);
  }
  if (values != nullptr) library_.value_free_len(values);
  return entry;
}

Result<std::vector<LdapEntry>> LdapSession::search(const Search& search) {
  if (broken_) return std::unexpected(*broken_);
  std::string attribute = search.attribute.empty() ? LDAP_NO_ATTRS : search.attribute;
  char* attributes[] = {attribute.data(), nullptr};
  const int scope = search.below ? LDAP_SCOPE_SUBTREE : LDAP_SCOPE_BASE;
  int id = 0;
  const int sent = library_.search_ext(handle_, search.base.c_str(), scope, search.filter.c_str(), attributes, 0,
                                       nullptr, nullptr, nullptr, search.entries_max + 1, &id);
  if (sent == LDAP_FILTER_ERROR) {
    return std::unexpected(broken({Errc::bad_config, 0, "ldap: the configured filter is invalid"}));
  }
  std::vector<LdapEntry> entries;
  for (int seen = 0; seen <= search.entries_max + references_max; ++seen) {
    VB_ASSIGN(const Message message, next(id, sent));
    const int type = library_.msgtype(message.get());
    if (type == LDAP_RES_SEARCH_ENTRY) {
      entries.push_back(read_entry(message.get(), search.attribute));
      if (entries.size() > static_cast<size_t>(search.entries_max)) break;
    }
    if (type == LDAP_RES_SEARCH_REFERENCE && search.all_here) {
      return std::unexpected(broken({Errc::malformed, 0,
                                     "ldap: below sign_in.ldap.group_base other directories have groups: name an entry "
                                     "without such groups below it"}));
    }
    if (type != LDAP_RES_SEARCH_RESULT) continue;
    VB_ASSIGN(const int code, outcome(message.get()));
    if (code == LDAP_SUCCESS) return entries;
    if (code == LDAP_SIZELIMIT_EXCEEDED) break;
    return std::unexpected(broken({Errc::malformed, 0, library_.err2string(code)}));
  }
  return std::unexpected(broken({Errc::too_large, 0, "ldap: more entries than there should be"}));
}

}  // namespace verbena::sign_in
