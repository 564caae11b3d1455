#include "auth/network_rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "auth/account_of.h"
#include "auth/auth.h"
#include "base/log.h"
#include "base/metrics.h"

namespace verbena::auth {
namespace {

constexpr std::string_view anonymous = "anonymous";
constexpr size_t id_digits = 12;

bool is_account(std::string_view id) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return id.size() == id_digits && std::ranges::all_of(id, digit);
}

// The series exist from the first rules on, which every server makes.
struct NetworkRefusals {
  metrics::Counter& account = of("account");
  metrics::Counter& plain = of("plain");
  static metrics::Counter& of(const char* reason) {
    return metrics::counter("verbena_network_refusals_total",
                            "Callers refused by the rule for their network: their account, or plain HTTP",
                            {{"reason", reason}});
  }
};

NetworkRefusals& network_refusals() {
  static NetworkRefusals all;
  return all;
}

// Whether each address of `inner` is in `outer`.
bool covers(const IpRange& outer, const IpRange& inner) {
  return outer.bits <= inner.bits && outer.contains(inner.base);
}

// Without the scope of a link-local address ("fe80::1%eth0").
std::optional<IpAddress> parse_client(std::string_view address) {
  return parse_ip(address.substr(0, address.find('%')));
}

std::expected<std::vector<IpRange>, std::string> parse_networks(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::unexpected("networks: is empty: name the clients' networks, like 10.0.0.0/8");
  std::vector<IpRange> out;
  for (const std::string& text : texts) {
    const auto range = parse_ip_range(text);
    if (!range) {
      return std::unexpected("networks: '" + log::printable(text, 64) + "' is not a network like 10.0.0.0/8");
    }
    out.push_back(*range);
  }
  return out;
}

std::expected<void, std::string> check_accounts(const std::vector<std::string>& accounts) {
  for (const std::string& id : accounts) {
    if (id == anonymous || is_account(id)) continue;
    return std::unexpected("accounts: '" + log::printable(id, 64) + "' is no account's id (12 digits), nor anonymous");
  }
  return {};
}

}  // namespace

std::expected<NetworkRules, std::string> NetworkRules::make(const std::vector<NetworkEntry>& entries,
                                                            RdmaEncryption elsewhere) {
  NetworkRules out(elsewhere);
  network_refusals();
  for (size_t i = 0; i < entries.size(); ++i) {
    const NetworkEntry& one = entries[i];
    const auto wrong = [i](const std::string& text) { return std::unexpected(fmt::format("[{}].{}", i, text)); };
    auto networks = parse_networks(one.networks);
    if (!networks) return wrong(networks.error());
    if (one.accounts) {
      if (auto sound = check_accounts(*one.accounts); !sound) return wrong(sound.error());
    }
    // The first entry decides, so a network inside an earlier entry's would never be looked at.
    for (size_t n = 0; n < networks->size(); ++n) {
      for (size_t before = 0; before < i; ++before) {
        const auto hides = [&](const IpRange& outer) { return covers(outer, (*networks)[n]); };
        if (std::ranges::none_of(out.entries_[before].networks, hides)) continue;
        return wrong(fmt::format("networks: {} is inside a network of entry [{}], which decides first: put it before",
                                 one.networks[n], before));
      }
    }
    out.entries_.push_back({.networks = std::move(*networks),
                            .encryption = one.encryption.value_or(elsewhere),
                            .needs_tls = one.encryption == RdmaEncryption::required,
                            .accounts = one.accounts});
  }
  return out;
}

std::optional<size_t> NetworkRules::entry_of(std::string_view address) const {
  const auto client = entries_.empty() ? std::nullopt : parse_client(address);
  const Entry* const found = client ? holder(*client) : nullptr;
  return found == nullptr ? std::nullopt : std::optional<size_t>(found - entries_.data());
}

const NetworkRules::Entry* NetworkRules::holder(const IpAddress& client) const {
  const auto holds = [&](const IpRange& range) { return range.contains(client); };
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& one) { return std::ranges::any_of(one.networks, holds); });
  return found == entries_.end() ? nullptr : &*found;
}

const NetworkRules::Entry* NetworkRules::find(std::string_view address) const {
  static const Entry nothing{.networks = {},
                             .encryption = RdmaEncryption::required,
                             .needs_tls = true,
                             .accounts = std::vector<std::string>{}};
  if (entries_.empty()) return nullptr;
  const auto client = parse_client(address);
  return client ? holder(*client) : &nothing;
}

RdmaEncryption NetworkRules::encryption(std::string_view address) const {
  const Entry* const entry = find(address);
  return entry == nullptr ? elsewhere_ : entry->encryption;
}

Result<void> NetworkRules::check_transport(std::string_view address, bool secure) const {
  const Entry* const entry = secure ? nullptr : find(address);
  if (entry == nullptr || !entry->needs_tls) return {};
  network_refusals().plain.add();
  return fail(Errc::access_denied, "Requests from this network must be encrypted: use https.");
}

Result<void> NetworkRules::check_caller(std::string_view address, const Identity& caller) const {
  const Entry* const entry = find(address);
  if (entry == nullptr || !entry->accounts) return {};
  const std::string_view name = caller.anonymous ? anonymous : account_of(caller);
  if (std::ranges::find(*entry->accounts, name) != entry->accounts->end()) return {};
  network_refusals().account.add();
  return fail(Errc::access_denied, "This account may not be used from this network.");
}

}  // namespace verbena::auth
