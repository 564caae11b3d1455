// Counts of a limited resource (connections, handshakes, sessions) per client, so that no client takes all of it.
//
//   ClientCounts counts({.each_max = 2'500, .clients_max = 10'000});
//   auto hold = counts.try_hold(client_of("2001:db8::1"));   // null: that client has each_max of them already
//
// The table has an entry only for clients that hold something. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct sockaddr;

namespace verbena {

// The unit that counts as one client: an IPv4 address, or the /64 of an IPv6 address (a host can have all addresses of
// its /64; link-local ones count separately, since a whole network shares fe80::/64). An IPv4 address mapped into IPv6
// counts as the IPv4 one. Any other text counts as itself, so that names of accounts can be counted, too.
std::string client_of(std::string_view address);
std::string client_of(const sockaddr& address);  // AF_INET, AF_INET6; else ""

// 127.0.0.0/8 and ::1, as client_of() writes them.
bool is_loopback_client(std::string_view client);

class ClientCounts {
  struct Table;
  struct Held;

 public:
  struct Limits {
    size_t each_max = 0;     // per client; 0: no limit
    size_t clients_max = 0;  // in the table; another client gets nothing. 0: no limit
  };
  // Holds one unit until it is destroyed. May outlive the table.
  using Hold = std::shared_ptr<const Held>;

  explicit ClientCounts(Limits limits);
  Hold try_hold(std::string_view client);  // null: the client has its maximum, or the table is full
  size_t count(std::string_view client) const;
  size_t clients() const;  // with at least one hold
  const Limits& limits() const;

 private:
  std::shared_ptr<Table> table_;
};

}  // namespace verbena
