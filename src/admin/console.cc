#include "admin/console.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "admin/packed.h"
#include "admin/sandboxed.h"
#include "auth/auth.h"
#include "auth/host.h"
#include "base/bytes.h"

namespace verbena::admin {
namespace {

constexpr std::string_view root = "/-/console/";
constexpr std::string_view sign_in_name = "sign-in.json";
constexpr size_t file_bytes_max = 16 * MiB;  // of the page, unpacked

// The page's policy: no foreign sources, nothing inline, no frames, and no text that becomes HTML: in a browser with
// trusted types the page cannot make any. `blob:` is for pictures that the page has fetched itself. `connect`: a
// further origin that the page may connect to, or empty.
std::string policy_with(const std::string& connect) {
  return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'" +
         (connect.empty() ? "" : " " + connect) +
         "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
         "trusted-types 'none'";
}

// "https://id.example.com" of "https://id.example.com/realm".
std::string origin_of(const std::string& issuer) {
  constexpr std::string_view begin = "https://";
  return issuer.substr(0, issuer.find('/', begin.size()));
}

std::string_view request_header(const http::Exchange& exchange, std::string_view wanted) {
  for (const auto& [name, value] : exchange.headers()) {
    if (name == wanted) return value;
  }
  return {};
}

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

void guard_page(const std::string& policy, s3::Response& response) {
  response.headers.emplace_back("content-security-policy", policy);
  response.headers.emplace_back("x-content-type-options", "nosniff");
  response.headers.emplace_back("x-frame-options", "DENY");
  response.headers.emplace_back("referrer-policy", "no-referrer");
  // No other window, such as a page from a bucket, gets a reference to this one.
  response.headers.emplace_back("cross-origin-opener-policy", "same-origin");
  response.headers.emplace_back("cross-origin-resource-policy", "same-origin");
  response.headers.emplace_back("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
}

// A header that may be split into several fields.
std::string joined_header(const http::Exchange& exchange, std::string_view wanted) {
  std::string joined;
  for (const auto& [name, value] : exchange.headers()) {
    if (name == wanted) joined.append(joined.empty() ? "" : ",").append(value);
  }
  return joined;
}

// Of the file as sent: packed and unpacked bytes differ, so they have two entity tags.
std::string etag_of(const ConsoleFile& file, bool packed) {
  std::string etag(file.etag);
  if (!packed) etag.insert(etag.size() - 1, "-i");
  return etag;
}

void answer_file(const ConsoleFile& file, const http::Exchange& exchange, s3::Response& response) {
  const bool packed = wants_gzip(joined_header(exchange, "accept-encoding"));
  const std::string etag = etag_of(file, packed);
  response.headers.emplace_back("etag", etag);
  response.headers.emplace_back("vary", "accept-encoding");
  response.headers.emplace_back("cache-control", "no-cache");  // revalidated, mostly with a 304
  if (request_header(exchange, "if-none-match").find(etag) != std::string_view::npos) {
    response.status = 304;
    response.no_body = true;
    return;
  }
  response.headers.emplace_back("content-type", type_of(file.name));
  if (packed) {
    response.headers.emplace_back("content-encoding", "gzip");
    response.body = file.gzip;
    return;
  }
  auto whole = gunzip(file.gzip, file_bytes_max);
  if (whole) {
    response.body = std::move(*whole);
  } else {
    response.status = 500;  // the program's own file: fails only if its memory is damaged
  }
}

void answer_unknown(s3::Response& response) {
  response.status = 404;
  response.headers.emplace_back("content-type", "text/plain");
  response.body = "The console has no such file.\n";
}

// A browser that navigates to a page. S3 clients sign, or have a query.
bool is_navigation(const http::Exchange& exchange) {
  const bool asks_page = request_header(exchange, "accept").find("text/html") != std::string_view::npos;
  return asks_page && exchange.query().empty() && request_header(exchange, "authorization").empty();
}

}  // namespace

Console::Console(std::string domain, ConsoleSignIn sign_in)
    : domain_(std::move(domain)),
      policy_(policy_with(origin_of(sign_in.issuer))),
      sign_in_(nlohmann::json{{"issuer", sign_in.issuer},
                              {"client", sign_in.client},
                              {"role", sign_in.role},
                              {"directory", sign_in.directory},
                              {"directory_role", sign_in.directory_role}}
                   .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {}

http::Handler Console::handler(std::string entrance, http::Handler otherwise) const {
  return [this, entrance = std::move(entrance), otherwise = std::move(otherwise)](http::Exchange& exchange) {
    return answer(entrance, otherwise, exchange);
  };
}

bool Console::is_for_page(const http::Exchange& exchange) const {
  if (exchange.method() != "GET" && exchange.method() != "HEAD") return false;
  return auth::virtual_bucket(auth::host_name(request_header(exchange, "host")), domain_).empty();
}

Task<void> Console::answer(const std::string& entrance, const http::Handler& otherwise,
                           http::Exchange& exchange) const {
  const std::string_view path = exchange.path();
  const bool entering = path == entrance || path == root.substr(0, root.size() - 1);
  s3::Response response;
  if (!is_for_page(exchange) || (!path.starts_with(root) && !(entering && is_navigation(exchange)))) {
    Sandboxed sandboxed(exchange);
    co_await http::serve_whole(otherwise, sandboxed);
    co_return;
  }
  if (entering) {
    response.status = 307;
    response.headers.emplace_back("location", root);
  } else {
    const std::string_view name = path == root ? "index.html" : path.substr(root.size());
    guard_page(policy_, response);
    const auto files = console_files();
    const auto found = std::ranges::find(files, name, &ConsoleFile::name);
    if (name == sign_in_name) {
      response.headers.emplace_back("content-type", "application/json");
      response.headers.emplace_back("cache-control", "no-store");
      response.body = sign_in_;
    } else if (found == files.end()) {
      answer_unknown(response);
    } else {
      answer_file(*found, exchange, response);
    }
  }
  (void)co_await exchange.reply(response);
}

}  // namespace verbena::admin
