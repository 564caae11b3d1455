// Addresses: of HTTP servers, of targets of events, of a provider's documents, of the client's endpoints. An accepted
// one has the properties that its users rely on: a port, a host without blanks, a target that is one word of a request.
#include <algorithm>
#include <cstdlib>

#include "client/endpoint.h"
#include "events/target_url.h"
#include "net/url.h"
#include "sign_in/https_get.h"

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

bool is_one_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

void http(std::string_view text) {
  const auto url = verbena::net::parse_http_url(text);
  if (!url) return;
  expect(url->port != 0 && !url->host.empty() && is_one_word(url->host) && is_one_word(url->target));
  expect(url->target.starts_with('/') && url->host.find_first_of("/@?#") == std::string::npos);
  const bool literal = url->host.find(':') != std::string::npos;  // of IPv6
  const std::string again = std::string(url->tls ? "https://" : "http://") + (literal ? "[" : "") + url->host +
                            (literal ? "]" : "") + ":" + std::to_string(url->port) + url->target;
  const auto second = verbena::net::parse_http_url(again);
  if (again.size() > 2048) return;
  expect(second && second->host == url->host && second->port == url->port && second->target == url->target &&
         second->tls == url->tls);
}

void target(std::string_view text) {
  verbena::events::TargetSettings settings;
  if (!verbena::events::parse_target_url(text, settings)) return;
  expect(settings.type == verbena::events::TargetType::file || (settings.port != 0 && !settings.host.empty()));
  expect(settings.host.find_first_of(" /@\r\n") == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  http(text);
  target(text);
  if (const auto url = verbena::sign_in::parse_https_url(text)) expect(url->tls);
  if (const auto endpoint = verbena::client::parse_endpoint(text)) {
    expect(endpoint->port != 0 && !endpoint->host.empty());
  }
  (void)verbena::client::parse_host_port(text, 9000);
  return 0;
}
