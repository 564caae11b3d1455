// Endpoint names: what fi_getname() returns and what a peer claims to be. fi_av_insert() takes no length, so a name is
// decoded and checked here before it reaches an address vector.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::fabric::ofi {

struct EndpointAddress {
  boost::asio::ip::address ip;  // IPv4-mapped IPv6 comes out as IPv4
  uint16_t port = 0;
  friend bool operator==(const EndpointAddress&, const EndpointAddress&) = default;
};

// Decodes the name of a provider with socket addresses (tcp, verbs;ofi_rxm): a sockaddr_in or sockaddr_in6 of exactly
// its size. nullopt for anything else, port 0, and addresses that no single host has (wildcard, multicast, broadcast).
std::optional<EndpointAddress> decode_socket_name(std::string_view name);

// The sockaddr of `address`, as decode_socket_name() takes it.
std::string encode_socket_name(const EndpointAddress& address);

// Whether `text` is an IP address equal to `ip`, IPv4-mapped forms and a zone aside.
bool same_address(const boost::asio::ip::address& ip, std::string_view text);

// Registers one of this process's own server endpoints, of any core. Thread-safe.
void add_own_endpoint(std::string_view name);
void remove_own_endpoint(std::string_view name);
bool is_own_endpoint(const EndpointAddress& address);

// Whether one of this host's interfaces has the address (loopback: any of 127/8).
bool is_host_address(const boost::asio::ip::address& ip);

}  // namespace verbena::fabric::ofi
