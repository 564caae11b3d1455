#include "sign_in/https_get.h"

#include "net/http_client.h"
#include "net/tls.h"

namespace verbena::sign_in {

std::optional<net::HttpUrl> parse_https_url(std::string_view text) {
  auto url = net::parse_http_url(text);
  if (url && !url->tls) url.reset();
  return url;
}

Result<std::string> https_get(const net::HttpUrl& url, const std::vector<std::string>& thumbprints,
                              const HttpsRules& rules, Deadline until, const std::atomic<bool>& stop) {
  net::HttpOptions options{.host = url.host,
                           .port = url.port,
                           .tls = true,
                           .ca_file = rules.ca_file,
                           .system_too = true,
                           .thumbprints = thumbprints};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
  options.connect_timeout = options.stall_timeout = left;
  options.head_bytes_max = 16 * KiB;
  options.allowed = [&rules](const std::string& address) { return rules.networks.allow(address); };
  VB_ASSIGN(const auto client, net::HttpClient::create(std::move(options)));
  net::HttpRequest request{
      .target = url.target,
      .headers = {{"accept", "application/json"}, {"user-agent", "verbena"}, {"connection", "close"}},
      .collected_body_max = rules.body_bytes_max,
      .deadline = until,
      .stop = stop};
  VB_ASSIGN(net::HttpReply reply, client->request(request));
  if (reply.status != 200) return fail(Errc::malformed, "https: the answer is not 200");
  return std::move(reply.body);
}

Result<void> check_authorities(const std::string& ca_file) {
  VB_TRY(net::make_client_tls({.ca_file = ca_file, .system_too = true}));
  return {};
}

}  // namespace verbena::sign_in
