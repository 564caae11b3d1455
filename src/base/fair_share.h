// The rule by which a bounded room is shared: each client may have as much of it as is still free. One client alone
// gets half of it, of two each gets a third, and some is always left for those that have nothing yet.
#pragma once

#include <cstdint>

namespace verbena {

// `all`, `own`: what everybody and this client hold of `most`. Whether the client may take `more`.
constexpr bool fits_fair_share(uint64_t all, uint64_t own, uint64_t more, uint64_t most) {
  if (all > most || more > most - all) return false;
  return own + more <= most - all - more;
}

// What one client may hold at most while the others hold `others`: the room in which its own parts share in turn.
constexpr uint64_t fair_share(uint64_t others, uint64_t most) { return others >= most ? 0 : (most - others) / 2; }

}  // namespace verbena
