// `listeners:` as the doors' rules (auth/network_rules.h). Errors name the key.
#pragma once

#include <expected>
#include <string>

#include "auth/network_rules.h"
#include "auth/principal.h"
#include "base/config.h"

namespace verbena::server {

std::expected<auth::NetworkRules, std::string> network_rules(const Config& config);
// Each entry as a line of the log, and a warning for those whose clients cannot use HTTP or which name an account that
// does not exist: a tenant's account that was removed must not keep the server from its next start.
void tell_networks(const Config& config, const auth::AccountDirectory& known);

}  // namespace verbena::server
