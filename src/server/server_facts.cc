#include "server/server_facts.h"

namespace verbena::server {
namespace {

using Doors = std::vector<admin::ServerFacts::Door>;

Doors doors_of(const Endpoints& endpoints) {
  const bool tls = endpoints.http.starts_with("https");
  const std::vector<std::string> none;
  Doors doors{{"http", endpoints.http, {tls ? "https" : "http"}}};
  doors.push_back({"token", endpoints.tokens.empty() ? "" : endpoints.http,
                   endpoints.tokens.empty() ? none : std::vector{endpoints.tokens}});
  doors.push_back({"native", endpoints.native, endpoints.providers});
  doors.push_back({"admin", endpoints.admin, endpoints.admin.empty() ? none : std::vector<std::string>{"http"}});
  return doors;
}

// Effective values of settings that the server chooses at its start.
std::map<std::string, std::string> in_force(const Started& started) {
  const Config& config = started.config;
  const auto port_of = [](const std::string& address) { return address.substr(address.rfind(':') + 1); };
  std::map<std::string, std::string> values{
      {"cores", std::to_string(started.cores.size())},
      {"cache.size", format_size(started.hot_capacity)},
      {"http.port", port_of(started.endpoints.http)},
      {"http.connections_max", std::to_string(config.http.connections_max)},
      {"rdma.connections_max", std::to_string(config.rdma.connections_max)},
  };
  if (!started.endpoints.admin.empty()) values["admin.port"] = port_of(started.endpoints.admin);
  if (!started.endpoints.native.empty()) values["rdma.port"] = port_of(started.endpoints.native);
  const auto add = [&](const char* key, const std::optional<uint64_t>& value) {
    if (value) values[key] = std::to_string(*value);
  };
  add("rdma.sessions_max", config.rdma.sessions_max);
  add("rdma.sessions_per_account_max", config.rdma.sessions_per_account_max);
  add("rdma.sessions_per_client_max", config.rdma.sessions_per_client_max);
  return values;
}

}  // namespace

admin::ServerFacts server_facts(const Started& started) {
  admin::ServerFacts facts;
  facts.version = VERBENA_VERSION;
  facts.engine = started.data.empty() ? "memory" : started.config.engine == EngineChoice::rados ? "rados" : "local";
  facts.data = started.data;
  facts.doors = doors_of(started.endpoints);
  facts.cores = static_cast<unsigned>(started.cores.size());
  facts.disk_io = started.disk_io;
  facts.hot_capacity = started.hot_capacity;
  facts.fallbacks = started.cores.front().fallbacks;
  if (started.endpoints.tokens.empty() && started.config.rdma.enabled) {
    facts.fallbacks.emplace_back("tokens are declined: nothing that is open serves them (rdma.token_provider)");
  }
  if (started.few_files) {
    facts.fallbacks.emplace_back("fewer connections and sessions than configured: too few files may be open at once");
  }
  facts.in_force = in_force(started);
  return facts;
}

}  // namespace verbena::server
