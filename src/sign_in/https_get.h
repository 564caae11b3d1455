// One GET over HTTPS of a document whose address and server may both be untrusted: bounded in time and size, no
// redirects, certificates checked, and only to addresses that are allowed. Blocks.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/networks.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/url.h"

namespace verbena::sign_in {

// nullopt: not https, or no URL (net/url.h).
std::optional<net::HttpUrl> parse_https_url(std::string_view text);

struct HttpsRules {
  auth::Networks networks;
  std::string ca_file;  // PEM: trusted besides the system's authorities; empty: none
  size_t body_bytes_max = 256 * 1024;
};

// The body of an answer 200. `thumbprints`: SHA-1 of certificates (40 hexadecimal digits) that are trusted here, too,
// where the peer shows them. Errors: access_denied (no address of the host is allowed), connection_failed (no
// connection in time; its certificate is not trusted), timed_out, closed, cancelled (`stop` was set), too_large,
// malformed (not an answer 200).
Result<std::string> https_get(const net::HttpUrl& url, const std::vector<std::string>& thumbprints,
                              const HttpsRules& rules, Deadline until, const std::atomic<bool>& stop);

// bad_config: the file of authorities cannot be read, or is no PEM.
Result<void> check_authorities(const std::string& ca_file);

}  // namespace verbena::sign_in
