// One connection to a directory, with one request at a time. Unusable after the first error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sign_in/ldap_library.h"
#include "sign_in/ldap_stream.h"

namespace verbena::sign_in {

struct LdapEntry {
  std::string dn;
  std::vector<std::string> values;  // of the requested attribute
};

// Blocks, until the stream's deadline. Errors: timed_out, cancelled, connection_failed, malformed (the directory
// refuses a required operation, named by the context).
class LdapSession {
 public:
  static Result<std::unique_ptr<LdapSession>> open(const LdapLibrary& library, std::unique_ptr<LdapStream> stream);
  ~LdapSession();
  LdapSession(const LdapSession&) = delete;

  // StartTLS (RFC 4511 section 4.14). Any answer but success is an error.
  Result<void> start_tls(boost::asio::ssl::context& tls, const std::string& host);
  // By name and password, neither of them empty. False: they are wrong, or may not be used now.
  Result<bool> bind(const std::string& dn, std::string_view password);

  struct Search {
    std::string base;
    bool below = true;  // or the entry itself
    std::string filter;
    std::string attribute;  // empty: none
    int entries_max = 1;    // more are an error: too_large
    bool all_here = false;  // entries referred to other directories are an error, too
  };
  Result<std::vector<LdapEntry>> search(const Search& search);

 private:
  LdapSession(const LdapLibrary& library, std::unique_ptr<LdapStream> stream)
      : library_(library), stream_(std::move(stream)) {}

  struct Freed {
    const LdapLibrary* library;
    void operator()(LDAPMessage* message) const { library->msgfree(message); }
  };
  using Message = std::unique_ptr<LDAPMessage, Freed>;
  Result<Message> next(int id, int sent);
  Result<int> outcome(LDAPMessage* message);
  Result<int> wait(int id, int sent);
  LdapEntry read_entry(LDAPMessage* message, const std::string& attribute);
  Error broken(Error error);

  const LdapLibrary& library_;
  std::unique_ptr<LdapStream> stream_;  // outlives its users
  LDAP* handle_ = nullptr;
  std::optional<Error> broken_;
};

}  // namespace verbena::sign_in
