#include "fabric/ofi/address.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <set>

#include "base/clock.h"

namespace verbena::fabric::ofi {
namespace {

namespace ip = boost::asio::ip;

ip::address unmapped(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

// Also without its zone.
ip::address bare(const ip::address& address) {
  const auto plain = unmapped(address);
  return plain.is_v6() ? ip::address(ip::address_v6(plain.to_v6().to_bytes())) : plain;
}

std::optional<ip::address> from_sockaddr(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    return ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, address, sizeof in);
    ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return unmapped(ip::address_v6(bytes, in.sin6_scope_id));
  }
  return std::nullopt;
}

bool belongs_to_one_host(const ip::address& address) {
  if (address.is_unspecified() || address.is_multicast()) return false;
  return !(address.is_v4() && address.to_v4() == ip::address_v4::broadcast());
}

struct OwnEndpoints {
  std::mutex mutex;
  std::multiset<std::string> names;
};

OwnEndpoints& own_endpoints() {
  static OwnEndpoints own;
  return own;
}

}  // namespace

std::optional<EndpointAddress> decode_socket_name(std::string_view name) {
  sockaddr_storage storage{};
  if (name.size() != sizeof(sockaddr_in) && name.size() != sizeof(sockaddr_in6)) return std::nullopt;
  std::memcpy(&storage, name.data(), name.size());
  const size_t size = storage.ss_family == AF_INET    ? sizeof(sockaddr_in)
                      : storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                      : 0;
  if (size != name.size()) return std::nullopt;
  const auto address = from_sockaddr(reinterpret_cast<const sockaddr*>(&storage));
  // sin_port and sin6_port are at the same offset.
  const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (!address || port == 0 || !belongs_to_one_host(*address)) return std::nullopt;
  return EndpointAddress{*address, port};
}

std::string encode_socket_name(const EndpointAddress& address) {
  if (address.ip.is_v4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    in.sin_addr.s_addr = htonl(address.ip.to_v4().to_uint());
    return {reinterpret_cast<const char*>(&in), sizeof in};
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(address.port);
  const auto bytes = address.ip.to_v6().to_bytes();
  std::memcpy(&in.sin6_addr, bytes.data(), bytes.size());
  in.sin6_scope_id = static_cast<uint32_t>(address.ip.to_v6().scope_id());
  return {reinterpret_cast<const char*>(&in), sizeof in};
}

bool same_address(const ip::address& own, std::string_view text) {
  if (const auto zone = text.find('%'); zone != std::string_view::npos) text = text.substr(0, zone);
  boost::system::error_code error;
  const auto other = ip::make_address(std::string(text), error);
  if (error) return false;
  return bare(own) == unmapped(other);
}

void add_own_endpoint(std::string_view name) {
  auto& own = own_endpoints();
  const std::lock_guard lock(own.mutex);
  own.names.emplace(name);
}

void remove_own_endpoint(std::string_view name) {
  auto& own = own_endpoints();
  const std::lock_guard lock(own.mutex);
  if (const auto it = own.names.find(std::string(name)); it != own.names.end()) own.names.erase(it);
}

bool is_own_endpoint(const EndpointAddress& address) {
  const std::string name = encode_socket_name(address);
  auto& own = own_endpoints();
  const std::lock_guard lock(own.mutex);
  return own.names.contains(name);
}

namespace {

// The addresses of this host's interfaces. Cached, since asking the kernel costs more than a small request.
struct HostAddresses {
  std::mutex mutex;
  SteadyClock::time_point asked_at{};
  std::set<ip::address> addresses;
};

constexpr auto host_addresses_keep = std::chrono::seconds(1);

}  // namespace

bool is_host_address(const ip::address& address) {
  if (bare(address).is_loopback()) return true;
  static HostAddresses host;
  const std::lock_guard lock(host.mutex);
  const auto now = SteadyClock::now();
  if (host.asked_at == SteadyClock::time_point{} || now - host.asked_at >= host_addresses_keep) {
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0) return true;  // unknown: assume that it is a host address
    host.addresses.clear();
    for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr) continue;
      if (const auto own = from_sockaddr(i->ifa_addr)) host.addresses.insert(bare(*own));
    }
    freeifaddrs(interfaces);
    host.asked_at = now;
  }
  return host.addresses.contains(bare(address));
}

}  // namespace verbena::fabric::ofi
