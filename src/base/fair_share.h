// Fair sharing of a bounded resource: each client may hold as much of it as is still free. One client alone gets half
// of it, of two each gets a third, and some is always left for new clients.
#pragma once

#include <cstdint>

namespace verbena {

// Whether the client may take `more`. `all`, `own`: the parts of `most` held by all clients and by this one.
constexpr bool fits_fair_share(uint64_t all, uint64_t own, uint64_t more, uint64_t most) {
  if (all > most || more > most - all) return false;
  return own + more <= most - all - more;
}

// The most that one client may hold while the others hold `others`: the bound within which its own parts are shared.
constexpr uint64_t fair_share(uint64_t others, uint64_t most) { return others >= most ? 0 : (most - others) / 2; }

}  // namespace verbena
