// Checks of the ports.
#include <fmt/core.h>

#include "cli/doctor.h"
#include "client/endpoint.h"
#include "net/http_client.h"

namespace verbena::cli {
namespace {

constexpr std::chrono::milliseconds answer_within{1'500};

bool is_local(const std::string& host) { return host == "localhost" || host.starts_with("127.") || host == "::1"; }

// Distinguishes: Verbena answers, nothing listens, or another program does.
Finding check_port(const std::string& subject, const client::Endpoint& at, const char* path, const char* server_flag) {
  Finding out{Health::ok, subject, {}, {}};
  net::HttpOptions options{.host = at.host, .port = at.port, .tls = at.tls, .insecure = true};
  options.connect_timeout = answer_within;
  options.stall_timeout = answer_within;
  auto http = net::HttpClient::create(std::move(options));
  if (!http) {
    out.health = Health::fail;
    out.found = describe(http.error());
    return out;
  }
  net::HttpRequest request;
  request.target = path;
  auto reply = (*http)->request(request);
  const std::string where = fmt::format("{}:{}", at.host, at.port);
  if (reply) {
    const std::string server(reply->header("server").value_or("another program"));
    const bool ours = server.find("erbena") != std::string::npos;
    out.health = ours ? Health::ok : Health::warn;
    out.found = ours ? "a Verbena server answers at " + where
                     : fmt::format("{} answers at {} (status {})", server.substr(0, 60), where, reply->status);
    if (!ours) out.mend = fmt::format("to run Verbena beside it: verbena server DIR {} 127.0.0.1:OTHER", server_flag);
    return out;
  }
  if (reply.error().code == Errc::connection_failed && is_local(at.host)) {
    out.found = where + " is free: nothing listens there";
    return out;
  }
  out.health = Health::warn;
  out.found = fmt::format("{}: {}", where, describe(reply.error()));
  out.mend = is_local(at.host) ? "a program that does not speak HTTP uses the port: ss -ltnp shows it"
                               : "is the server running, and does a firewall let TCP port " + std::to_string(at.port) +
                                     " through? nft list ruleset shows the rules";
  return out;
}

}  // namespace

Findings check_ports(const std::string& endpoint, const std::string& native) {
  Findings out;
  auto s3 = client::parse_endpoint(endpoint);
  if (!s3) return {{Health::fail, "S3 port", s3.error().message, "--endpoint http://HOST:PORT"}};
  client::Endpoint door{s3->host, 9100, false};
  if (!native.empty()) {
    auto parsed = client::parse_host_port(native, 9100);
    if (!parsed) return {{Health::fail, "native port", parsed.error().message, "--native HOST:PORT"}};
    door.host = parsed->host;
    door.port = parsed->port;
  }
  out.push_back(check_port("S3 port", *s3, "/-/health", "--http"));
  out.push_back(check_port("native port", door, "/-/health", "--rdma"));
  if (!is_local(s3->host)) {
    out.push_back(
        {Health::ok, "firewall",
         "clients connect to the server's S3, native and fabric ports; for token transfers the server connects to the "
         "client",
         "on the server set rdma.fabric_ports and open that range; on clients allow connections from the server"});
  }
  return out;
}

}  // namespace verbena::cli
