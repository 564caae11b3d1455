// `verbena health`: whether a server answers, for containers' health checks and scripts.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

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

// The status of /-/health. The check is for an answer, not for the server's identity: no secrets are sent.
Result<int> ask(const client::Endpoint& at, unsigned timeout_s) {
  net::HttpOptions options{.host = at.host, .port = at.port, .tls = at.tls, .insecure = true};
  options.connect_timeout = options.stall_timeout = std::chrono::seconds(timeout_s);
  VB_ASSIGN(const auto http, net::HttpClient::create(std::move(options)));
  net::HttpRequest request;
  request.target = "/-/health";
  VB_ASSIGN(const auto reply, http->request(request));
  return reply.status;
}

// Without an endpoint: the server that has this environment, as in a container, with TLS or without.
int ask_health(const HealthFlags& flags) {
  std::string endpoint = flags.endpoint.empty() ? aws_settings("").endpoint : flags.endpoint;
  const bool named = !endpoint.empty();
  const char* const port = std::getenv("VERBENA_HTTP_PORT");
  if (!named) endpoint = std::string("http://127.0.0.1:") + (port != nullptr && *port != '\0' ? port : "9000");
  auto at = client::parse_endpoint(endpoint);
  if (!at) {
    std::fprintf(stderr, "verbena: %s\n", at.error().message.c_str());
    return exit_usage;
  }
  auto status = ask(*at, flags.timeout_s);
  if (!status && !named) {
    at->tls = true;
    if (const auto by_tls = ask(*at, flags.timeout_s)) status = by_tls;
  }
  if (status && *status == 200) return exit_ok;
  const std::string why = status ? "status " + std::to_string(*status) : describe(status.error());
  std::fprintf(stderr, "verbena: %s: %s\n", endpoint.c_str(), why.c_str());
  return exit_connection;
}

}  // namespace

void add_health_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("health", "Check whether a server answers; the exit code shows the result");
  auto flags = std::make_shared<HealthFlags>();
  command
      ->add_option("--endpoint", flags->endpoint,
                   "S3 endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; port VERBENA_HTTP_PORT or 9000 of this host, "
                   "with TLS or without)")
      ->type_name("URL");
  command->add_option("--timeout", flags->timeout_s, "seconds to wait")
      ->check(CLI::Range(1u, 600u))
      ->capture_default_str();
  command->footer("Asks GET /-/health. Exit codes: 0 it answers; 5 it does not, or it is stopping.");
  command->callback([flags, &exit_code] { exit_code = ask_health(*flags); });
}

}  // namespace verbena::cli
