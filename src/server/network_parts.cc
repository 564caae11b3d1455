#include "server/network_parts.h"

#include <fmt/ranges.h>

#include "base/log.h"

namespace verbena::server {
namespace {

// The rule stays as it is written: where a removed account was the only one, no caller may use any.
void tell_missing_accounts(size_t entry, const std::vector<std::string>& ids, const auth::AccountDirectory& accounts) {
  for (const std::string& id : ids) {
    if (id == "anonymous" || accounts.by_id(id) != nullptr) continue;
    log::warn(
        "listeners[{}].accounts: there is no account {} (removed, or misspelled); the entry admits the others alone",
        entry, log::printable(id, 64));
  }
}

}  // namespace

std::expected<auth::NetworkRules, std::string> network_rules(const Config& config) {
  std::vector<auth::NetworkEntry> entries;
  for (const Config::Listener& one : config.listeners) entries.push_back({one.networks, one.encryption, one.accounts});
  auto made = auth::NetworkRules::make(entries, config.rdma.encryption);
  if (!made) return std::unexpected("listeners" + made.error());
  return made;
}

void tell_networks(const Config& config, const auth::AccountDirectory& known) {
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const Config::Listener& one = config.listeners[i];
    const std::string networks = log::printable(fmt::format("{}", fmt::join(one.networks, ", ")), 512);
    const std::string accounts = one.accounts ? fmt::format("{}", fmt::join(*one.accounts, ", ")) : "all";
    log::info("listeners[{}]: networks=[{}] encryption={} accounts=[{}]", i, networks,
              to_string(one.encryption.value_or(config.rdma.encryption)), log::printable(accounts, 512));
    if (one.accounts) tell_missing_accounts(i, *one.accounts, known);
    if (one.encryption == RdmaEncryption::required && config.tls.certificate.empty()) {
      log::warn("listeners[{}]: HTTP is refused from there: encryption is required, and tls.certificate is not set", i);
    }
  }
}

}  // namespace verbena::server
