// The console: a page for browsers, and the rules of a listener that serves it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "http/server.h"

namespace verbena::admin {

// A file of the page, built by `./dev console`.
struct ConsoleFile {
  std::string_view name;  // "index.html"
  std::string_view etag;  // quoted
  std::string_view gzip;
};
// Embedded in the program (cmake/embed.cmake).
std::span<const ConsoleFile> console_files();

// Ways to sign in (docs/console.md); empty: by keys alone.
struct ConsoleSignIn {
  std::string issuer;           // "https://id.example.com/realm"
  std::string client;           // the console's client id there
  std::string role;             // ARN; empty: each user names one
  bool directory = false;       // with a name and a password of the operator's directory
  bool directory_role = false;  // which has a default role; unauthenticated callers do not learn which
};

class Console {
 public:
  // `domain`: of virtual hosts, whose paths are keys and not pages.
  explicit Console(std::string domain, ConsoleSignIn sign_in = {});
  Console(const Console&) = delete;

  // GET /-/console/ and the page's files; a browser that requests `entrance` without a signature is redirected there.
  // All else goes to `otherwise`, whose answers are sandboxed: an object that is a web page would have the console's
  // origin, so it runs no scripts. The handler must not outlive this.
  http::Handler handler(std::string entrance, http::Handler otherwise) const;

 private:
  Task<void> answer(const std::string& entrance, const http::Handler& otherwise, http::Exchange& exchange) const;
  bool is_for_page(const http::Exchange& exchange) const;
  const std::string domain_;
  const std::string policy_;   // Content-Security-Policy
  const std::string sign_in_;  // sign-in settings for the page: JSON
};

}  // namespace verbena::admin
