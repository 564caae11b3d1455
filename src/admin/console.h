// The console: a page for browsers, and what is true of a listener that has it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "http/server.h"

namespace verbena::admin {

// A file of the page as `./dev console` made it.
struct ConsoleFile {
  std::string_view name;  // "index.html"
  std::string_view etag;  // quoted
  std::string_view gzip;
};
// In the program itself (cmake/embed.cmake).
std::span<const ConsoleFile> console_files();

// By whom people sign in (docs/console.md); empty: by keys alone.
struct ConsoleSignIn {
  std::string issuer;           // "https://id.example.com/realm"
  std::string client;           // what the console is called there
  std::string role;             // ARN; empty: each has to name one
  bool directory = false;       // with a name and a password that the operator's directory knows
  bool directory_role = false;  // which gives a role to who names none; strangers are not told which
};

class Console {
 public:
  // `domain`: of virtual hosts, whose paths are keys and no pages.
  explicit Console(std::string domain, ConsoleSignIn sign_in = {});
  Console(const Console&) = delete;

  // GET /-/console/ and the page's files; a browser that asks for `entrance` without a signature is sent there. All
  // else goes to `otherwise`, whose answers are sandboxed: an object that is a web page would have the console's
  // origin, so it runs no scripts. The handler must not outlive this.
  http::Handler handler(std::string entrance, http::Handler otherwise) const;

 private:
  Task<void> answer(const std::string& entrance, const http::Handler& otherwise, http::Exchange& exchange) const;
  bool is_for_page(const http::Exchange& exchange) const;
  const std::string domain_;
  const std::string policy_;   // Content-Security-Policy
  const std::string sign_in_;  // what the page is told of it: JSON
};

}  // namespace verbena::admin
