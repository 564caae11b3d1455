// Connections to a session's endpoints.
#pragma once

#include <string>

#include "client/native/session.h"

namespace verbena::client {

// Dials by the endpoint's provider: fabric/local, fabric/tcp or fabric/ofi. All links of one session to one host share
// their lendable memory.
NativeDial make_native_dial(const NativeOptions& options);

// "verbs" in a list of preferences means "verbs;ofi_rxm" too.
bool same_provider(std::string_view wanted, std::string_view offered);

}  // namespace verbena::client
