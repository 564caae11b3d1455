// presign: a URL that works for a limited time without keys.
#include <fmt/core.h>

#include <charconv>

#include "auth/auth.h"
#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "client/endpoint.h"

namespace verbena::cli {
namespace {

constexpr int64_t week_s = 7 * 24 * 3600;  // S3's maximum

// "3600", "90s", "15m", "12h", "7d".
std::optional<int64_t> seconds_of(std::string_view text) {
  int64_t number = 0, unit = 1;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc()) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest == "m") unit = 60;
  if (rest == "h") unit = 3600;
  if (rest == "d") unit = 24 * 3600;
  if (unit == 1 && !rest.empty() && rest != "s") return std::nullopt;
  if (number < 1 || number > week_s / unit) return std::nullopt;
  return number * unit;
}

std::string host_text(const client::Endpoint& endpoint) {
  std::string host = endpoint.host.find(':') == std::string::npos ? endpoint.host : "[" + endpoint.host + "]";
  if (endpoint.port != (endpoint.tls ? 443 : 80)) host += ":" + std::to_string(endpoint.port);
  return host;
}

}  // namespace

int run_presign(const PresignArguments& arguments) {
  auto address = parse_s3_address(arguments.address);
  if (!address) return report(arguments.address, address.error(), exit_usage);
  if (address->key.empty()) return report(arguments.address, "the key is missing: s3://BUCKET/KEY", exit_usage);
  const auto expires_s = seconds_of(arguments.expires);
  if (!expires_s) {
    return report("--expires " + arguments.expires, "expected a time of up to 7d: 3600, 15m, 12h", exit_usage);
  }
  const auto options = arguments.client.options();
  if (!options) return exit_usage;
  if (options->access_key.empty()) return report(arguments.address, "signing needs keys", exit_usage);
  const auto endpoint = client::parse_endpoint(options->endpoint);
  if (!endpoint) return report(options->endpoint, endpoint.error());
  const std::string host = host_text(*endpoint);
  const std::string path = "/" + auth::uri_encode(address->bucket, false) + "/" + auth::uri_encode(address->key, true);
  const auth::Credentials keys{options->access_key, options->secret_key, options->session_token};
  const auto query = auth::presign(keys, options->region, system_clock(), arguments.method, host, path, "", *expires_s);
  if (!query) return report(arguments.address, describe(query.error()), exit_usage);
  fmt::print("{}://{}{}?{}\n", endpoint->tls ? "https" : "http", host, path, *query);
  return exit_ok;
}

}  // namespace verbena::cli
