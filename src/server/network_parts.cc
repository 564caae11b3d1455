#include "server/network_parts.h"

#include <fmt/ranges.h>

#include "base/log.h"

namespace verbena::server {

std::expected<auth::NetworkRules, std::string> network_rules(const Config& config) {
  std::vector<auth::NetworkEntry> entries;
  for (const Config::Listener& one : config.listeners) entries.push_back({one.networks, one.encryption, one.accounts});
  auto made = auth::NetworkRules::make(entries, config.rdma.encryption);
  if (!made) return std::unexpected("listeners" + made.error());
  return made;
}

std::expected<void, std::string> check_network_accounts(const Config& config, const auth::AccountDirectory& accounts) {
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    for (const std::string& id : config.listeners[i].accounts.value_or(std::vector<std::string>())) {
      if (id == "anonymous" || accounts.by_id(id) != nullptr) continue;
      return std::unexpected(fmt::format("listeners[{}].accounts: there is no account {}", i, log::printable(id, 64)));
    }
  }
  return {};
}

void tell_networks(const Config& config) {
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const Config::Listener& one = config.listeners[i];
    const std::string networks = log::printable(fmt::format("{}", fmt::join(one.networks, ", ")), 512);
    const std::string accounts = one.accounts ? fmt::format("{}", fmt::join(*one.accounts, ", ")) : "all";
    log::info("listeners[{}]: networks=[{}] encryption={} accounts=[{}]", i, networks,
              to_string(one.encryption.value_or(config.rdma.encryption)), log::printable(accounts, 512));
    if (one.encryption == RdmaEncryption::required && config.tls.certificate.empty()) {
      log::warn("listeners[{}]: HTTP is refused from there: encryption is required, and tls.certificate is not set", i);
    }
  }
}

}  // namespace verbena::server
