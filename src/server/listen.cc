// The doors: the handler of each listener, and the operator's calls.
#include <boost/asio/ip/address.hpp>

#include "base/log.h"
#include "call/bucket_traffic.h"
#include "server/door_limits.h"
#include "server/process_metrics.h"
#include "server/server_facts.h"
#include "server/server_state.h"

namespace verbena::server {
namespace {

constexpr size_t admin_queue_max = 16;  // searches of the access log, or one look at the machine
constexpr uint16_t admin_port_default = 9001;

}  // namespace

http::Handler Server::State::s3_handler(const CoreParts& parts, std::optional<size_t> network_entry) {
  return http::make_s3_handler(*verifier, *parts.router,
                               {.access_log = access_log.get(),
                                .watch = &watch,
                                .tracer = tracer.get(),
                                .iam = iam.get(),
                                .arena = arena.get(),
                                .domain = config.domain,
                                .auth_failures = auth_failures.get(),
                                .stopping = &stopping,
                                .networks = rules(),
                                .network_entry = network_entry});
}

std::expected<void, std::string> Server::State::listen() {
  std::optional<http::TlsFiles> tls;
  if (!config.tls.certificate.empty()) tls = http::TlsFiles{config.tls.certificate, config.tls.key};
  const auto limits = http_limits(config.http);
  // Separate, so that a full S3 door leaves health, metrics and sessions open.
  const auto s3_room = make_room(config.http.connections_max, config.http.connections_per_client_max, "s3");
  const auto native_room = make_room(config.rdma.connections_max, config.rdma.connections_per_client_max, "native");
  const auto certificate_room = make_room(descriptors.certificates, descriptors.certificates_each, "certificates");
  uint16_t http_port = config.http.port;
  uint16_t native_port = config.rdma.port;
  certificate_port = config.sign_in.certificates.port;
  pages = std::make_unique<admin::Pages>(*verifier, stopping, auth_failures.get(), rules());
  const admin::ConsoleSignIn people{.issuer = config.admin.console_provider,
                                    .client = config.admin.console_client,
                                    .role = config.admin.console_role,
                                    .directory = !config.sign_in.ldap.url.empty(),
                                    .directory_role = !config.sign_in.ldap.role.empty()};
  console = std::make_unique<admin::Console>(config.domain, people);
  call::show_buckets(config.admin.bucket_metrics);
  usage_metrics = std::make_unique<s3::UsageMetrics>(service->store, config.admin.bucket_metrics);
  export_process_metrics(directory ? directory->path() : std::filesystem::path());
  for (auto& parts : cores) {
    http::Handler s3 = s3_handler(parts);
    if (config.admin.console) {
      s3 = console->handler("/console", pages->handler(std::move(s3), admin::Pages::Metrics::signed_always));
    }
    auto opened = http::listen(*parts.core, config.http.address, http_port, limits, tls, std::move(s3), s3_room);
    if (!opened) return std::unexpected("http " + at(config.http.address, http_port) + ": " + describe(opened.error()));
    parts.s3_listener = std::move(*opened);
    http_port = parts.s3_listener->port();
    if (sign_in.machines) {
      if (auto asking = listen_for_certificates(parts, *tls, certificate_room); !asking) return asking;
    }
    if (door == nullptr) continue;
    auto native = http::listen(*parts.core, config.rdma.address, native_port, limits, std::nullopt,
                               pages->handler(door->session_handler()), native_room);
    if (!native)
      return std::unexpected("rdma " + at(config.rdma.address, native_port) + ": " + describe(native.error()));
    parts.native_listener = std::move(*native);
    native_port = parts.native_listener->port();
  }
  endpoints.http = (tls ? "https://" : "http://") + at(config.http.address, http_port);
  if (door != nullptr) {
    endpoints.native = at(config.rdma.address, native_port);
    // Clients name addresses that the server connects to: never its own.
    for (const uint16_t port : {http_port, native_port}) {
      windows->add_own_port(port);
      door->add_own_port(port);
    }
  }
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    if (config.listeners[i].address.empty()) continue;
    if (auto opened = listen_for_network(i, tls, s3_room); !opened) return opened;
  }
  return config.admin.enabled ? listen_admin() : std::expected<void, std::string>();
}

// A separate port: on the main one browsers would ask people for unrelated certificates, each handshake would cost as
// much as an unauthenticated client's certificate, and TLS sessions could not be resumed.
std::expected<void, std::string> Server::State::listen_for_certificates(
    CoreParts& parts, http::TlsFiles tls, const std::shared_ptr<http::ConnectionRoom>& room) {
  const std::string& address = certificate_address();
  tls.ask_clients = true;
  auto opened =
      http::listen(*parts.core, address, certificate_port, http_limits(config.http), tls, s3_handler(parts), room);
  if (!opened) {
    return std::unexpected("sign_in.certificates.address " + at(address, certificate_port) + ": " +
                           describe(opened.error()));
  }
  parts.certificate_listener = std::move(*opened);
  certificate_port = parts.certificate_listener->port();
  if (&parts == &cores.front()) {
    log::info("server: clients are asked for certificates at https://{}", at(address, certificate_port));
    if (door != nullptr) {
      windows->add_own_port(certificate_port);
      door->add_own_port(certificate_port);
    }
  }
  return {};
}

std::expected<void, std::string> Server::State::listen_for_network(size_t entry,
                                                                   const std::optional<http::TlsFiles>& tls,
                                                                   const std::shared_ptr<http::ConnectionRoom>& room) {
  const Config::Listener& one = config.listeners[entry];
  const bool plain = !tls || one.encryption == RdmaEncryption::off;
  uint16_t port = one.port;
  for (auto& parts : cores) {
    auto opened = http::listen(*parts.core, one.address, port, http_limits(config.http), plain ? std::nullopt : tls,
                               s3_handler(parts, entry), room);
    if (!opened) {
      return std::unexpected(
          fmt::format("listeners[{}].address {}: {}", entry, at(one.address, port), describe(opened.error())));
    }
    port = (*opened)->port();
    parts.network_listeners.push_back(std::move(*opened));
  }
  endpoints.networks.push_back((plain ? "http://" : "https://") + at(one.address, port));
  log::info("listeners[{}]: S3 at {}", entry, endpoints.networks.back());
  if (door != nullptr) {
    windows->add_own_port(port);
    door->add_own_port(port);
  }
  return {};
}

std::expected<void, std::string> Server::State::listen_admin() {
  auto& parts = cores.front();
  const auto room = make_room(descriptors.admin, descriptors.admin_each, "admin");
  const auto metrics =
      config.admin.open_metrics ? admin::Pages::Metrics::open : admin::Pages::Metrics::signed_elsewhere;
  // The console calls S3 and IAM at its own origin, so that browsers need no permission for another one.
  const auto open = [&](uint16_t port) {
    return http::listen(*parts.core, config.admin.address, port, http_limits(config.http), std::nullopt,
                        console->handler("/", pages->handler(s3_handler(parts), metrics)), room);
  };
  uint16_t wanted = config.admin.port.value_or(config.http.port == 0 ? 0 : admin_port_default);
  // Another listener of this process would share the port, and connections would be split at random.
  const uint16_t others[] = {config.http.port, config.rdma.port, config.sign_in.certificates.port};
  if (!config.admin.port && std::ranges::find(others, wanted) != std::end(others)) wanted = 0;
  auto opened = open(wanted);
  // Another server on this machine may use the default port: then any free one is taken.
  if (!opened && opened.error().code == Errc::connection_failed && !config.admin.port) opened = open(0);
  if (!opened) return std::unexpected("admin " + at(config.admin.address, wanted) + ": " + describe(opened.error()));
  parts.admin_listener = std::move(*opened);
  const uint16_t port = parts.admin_listener->port();
  endpoints.admin = "http://" + at(config.admin.address, port);
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(config.admin.address, no_address);
  if (!config.tls.certificate.empty() && !no_address && !address.is_loopback()) {
    log::warn("server: {} serves S3, IAM and metrics without TLS, which admin.address opens to the network",
              endpoints.admin);
  }
  if (door != nullptr) {
    windows->add_own_port(port);
    door->add_own_port(port);
  }
  return {};
}

// Before the cores run, since they receive calls.
void Server::State::serve_operator() {
  admin_pool = std::make_unique<BlockingPool>(1, admin_queue_max);
  doctor_pool = std::make_unique<BlockingPool>(1, admin_queue_max);
  const Started started{.config = config,
                        .endpoints = endpoints,
                        .cores = cores,
                        .data = directory ? directory->path() : std::filesystem::path(),
                        .disk_io = has_disk() ? tell_disk_io(cores) : "none",
                        .hot_capacity = hot_bytes,
                        .few_files = !descriptors.enough};
  const admin::Operator::Parts parts{.config = config,
                                     .arena = *arena,
                                     .store = service->store,
                                     .clock = system_clock(),
                                     .identities = *identities,
                                     .watch = watch,
                                     .door = door.get(),
                                     .events = event_queues.get(),
                                     .deliveries = deliveries.get(),
                                     .pool = *admin_pool,
                                     .doctor_pool = *doctor_pool,
                                     .stopping = stopping};
  operations = std::make_unique<admin::Operator>(parts, server_facts(started));
  iam->set_operator(operations.get());
}

}  // namespace verbena::server
