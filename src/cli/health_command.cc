// `verbena health`: whether a server answers, for containers' health checks and scripts.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/aws_profile.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "client/endpoint.h"
#include "net/http_client.h"

namespace verbena::cli {
namespace {

struct HealthFlags {
  std::string endpoint;
  unsigned timeout_s = 5;
};

int not_healthy(const std::string& endpoint, const std::string& why) {
  std::fprintf(stderr, "verbena: %s: %s\n", endpoint.c_str(), why.c_str());
  return exit_connection;
}

int ask_health(const HealthFlags& flags) {
  std::string endpoint = flags.endpoint.empty() ? aws_settings("").endpoint : flags.endpoint;
  if (endpoint.empty()) endpoint = "http://127.0.0.1:9000";
  const auto at = client::parse_endpoint(endpoint);
  if (!at) {
    std::fprintf(stderr, "verbena: %s\n", at.error().message.c_str());
    return exit_usage;
  }
  // The check is for an answer, not for the server's identity: no secrets are sent.
  net::HttpOptions options{.host = at->host, .port = at->port, .tls = at->tls, .insecure = true};
  options.connect_timeout = options.stall_timeout = std::chrono::seconds(flags.timeout_s);
  auto http = net::HttpClient::create(std::move(options));
  if (!http) return not_healthy(endpoint, describe(http.error()));
  net::HttpRequest request;
  request.target = "/-/health";
  const auto reply = (*http)->request(request);
  if (!reply) return not_healthy(endpoint, describe(reply.error()));
  if (reply->status != 200) return not_healthy(endpoint, "status " + std::to_string(reply->status));
  return exit_ok;
}

}  // namespace

void add_health_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("health", "Check whether a server answers; the exit code shows the result");
  auto flags = std::make_shared<HealthFlags>();
  command
      ->add_option("--endpoint", flags->endpoint,
                   "S3 endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; http://127.0.0.1:9000)")
      ->type_name("URL");
  command->add_option("--timeout", flags->timeout_s, "seconds to wait")
      ->check(CLI::Range(1u, 600u))
      ->capture_default_str();
  command->footer("Asks GET /-/health. Exit codes: 0 it answers; 5 it does not, or it is stopping.");
  command->callback([flags, &exit_code] { exit_code = ask_health(*flags); });
}

}  // namespace verbena::cli
