// `listeners:` as the doors' rules (auth/network_rules.h). Errors name the key.
#pragma once

#include <expected>
#include <string>

#include "auth/network_rules.h"
#include "auth/principal.h"
#include "base/config.h"

namespace verbena::server {

std::expected<auth::NetworkRules, std::string> network_rules(const Config& config);
// Whether the accounts that they name exist.
std::expected<void, std::string> check_network_accounts(const Config& config, const auth::AccountDirectory& accounts);
// Each entry as a line of the log, and a warning for those whose clients cannot use HTTP.
void tell_networks(const Config& config);

}  // namespace verbena::server
