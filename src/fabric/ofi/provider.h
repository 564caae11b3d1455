// The choice of provider, device and address: Options -> one fi_info.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/ofi/fid.h"
#include "fabric/ofi/ofi.h"

namespace verbena::fabric::ofi {

// Work requests with their defaults filled in.
struct Depths {
  size_t sends = 128;
  // verbs: sends to one peer, the depth of a connection's send queue, which is most of a session's memory here. One
  // below a power of two: soft-RoCE rounds up to that.
  size_t sends_per_connection = 63;
  size_t receives = 128;
  size_t completions = 256;
  size_t universe = 16;  // verbs: connections of one endpoint whose sends fit the device's completion queue at once
};

// bad_config when they contradict each other.
Result<Depths> depths(const Options& options);

enum class Role { server, client };

// The best fi_info for the options. `source`: text of the local address ("": any interface). Its port is 0: any.
Result<InfoPtr> choose(const Options& options, Role role, const std::string& source);

// The address to bind: bind_address, or the one of the selected GID; "" for a wildcard.
Result<std::string> source_address(const Options& options);

// "tcp", "verbs;ofi_rxm": the name in tokens.
inline std::string_view provider_name(const fi_info& info) { return info.fabric_attr->prov_name; }
// "mlx5_0", "eth0"; empty: it has none.
inline std::string_view domain_name(const fi_info& info) {
  return info.domain_attr->name == nullptr ? std::string_view() : info.domain_attr->name;
}

// Longest message: the requested size, or what the provider carries in one packet.
size_t message_size_max(const Options& options, const fi_info& info);

// Whether names are socket addresses (else their format is the provider's own: efa, cxi).
bool has_socket_addresses(const fi_info& info);

// Provider "auto"/"a,b" -> names of fi_getinfo, in order. bad_config for an unknown one.
Result<std::vector<std::string>> preferences(std::string_view provider);

}  // namespace verbena::fabric::ofi
