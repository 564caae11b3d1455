// The transport of object bytes between client and server. Doors and windows work over several transports, and only
// bytes moved by an RDMA device are RDMA.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace verbena::rdma {

enum class Transport : uint8_t { http, tcp, shared_memory, rdma };
inline constexpr std::array<std::string_view, 4> transport_names{"http", "tcp", "shared_memory", "rdma"};

inline std::string_view to_string(Transport transport) { return transport_names[static_cast<size_t>(transport)]; }

// The transport of a fabric provider: "local", "tcp", "verbs;ofi_rxm". libfabric's providers without a device are known
// by name; all others drive one.
Transport transport_of(std::string_view provider);

}  // namespace verbena::rdma
