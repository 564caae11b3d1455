// Whom limits and rules of accounts concern.
#pragma once

#include <string_view>

#include "auth/auth.h"

namespace verbena::auth {

// The id of the account that the caller acts for; empty: none, as of anonymous callers.
inline std::string_view account_of(const Identity& caller) {
  if (caller.anonymous) return {};
  if (caller.principal == nullptr) return root_account_id;
  return caller.principal->account == nullptr ? std::string_view() : std::string_view(caller.principal->account->id);
}

}  // namespace verbena::auth
