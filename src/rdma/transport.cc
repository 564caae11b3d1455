#include "rdma/transport.h"

#include <algorithm>

namespace verbena::rdma {

Transport transport_of(std::string_view provider) {
  constexpr std::array<std::string_view, 3> in_memory{"local", "shm", "sm2"};
  constexpr std::array<std::string_view, 4> over_sockets{"tcp", "udp", "sockets", "net"};
  const std::string_view core = provider.substr(0, provider.find(';'));  // "tcp;ofi_rxm" is one layered on the other
  if (std::ranges::find(in_memory, core) != in_memory.end()) return Transport::shared_memory;
  if (std::ranges::find(over_sockets, core) != over_sockets.end()) return Transport::tcp;
  return Transport::rdma;
}

}  // namespace verbena::rdma
