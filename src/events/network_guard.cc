#include "events/network_guard.h"

#include <algorithm>
#include <array>

namespace verbena::events {
namespace {

namespace ip = boost::asio::ip;

struct Network4 {
  uint32_t base;
  unsigned bits;
};
constexpr uint32_t v4(unsigned a, unsigned b, unsigned c, unsigned d) { return a << 24 | b << 16 | c << 8 | d; }

// IANA's registry of special-purpose addresses, and groups.
constexpr std::array<Network4, 15> special_networks{{
    {v4(0, 0, 0, 0), 8},
    {v4(10, 0, 0, 0), 8},
    {v4(100, 64, 0, 0), 10},
    {v4(127, 0, 0, 0), 8},
    {v4(169, 254, 0, 0), 16},
    {v4(172, 16, 0, 0), 12},
    {v4(192, 0, 0, 0), 24},
    {v4(192, 0, 2, 0), 24},
    {v4(192, 88, 99, 0), 24},
    {v4(192, 168, 0, 0), 16},
    {v4(198, 18, 0, 0), 15},
    {v4(198, 51, 100, 0), 24},
    {v4(203, 0, 113, 0), 24},
    {v4(224, 0, 0, 0), 4},
    {v4(240, 0, 0, 0), 4},
}};

bool is_public4(uint32_t address) {
  return std::ranges::none_of(
      special_networks, [&](const Network4& network) { return (address ^ network.base) >> (32 - network.bits) == 0; });
}

uint32_t read4(const ip::address_v6::bytes_type& bytes, size_t at) {
  return v4(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
}

// Only global unicast (2000::/3) is public; in it what is wrapped, or is no place: Teredo, 6to4, documentation.
bool is_public6(const ip::address_v6& address) {
  const auto bytes = address.to_bytes();
  if (address.is_v4_mapped()) return is_public4(read4(bytes, 12));
  constexpr std::array<uint8_t, 12> nat64{0x00, 0x64, 0xff, 0x9b};
  if (std::equal(nat64.begin(), nat64.end(), bytes.begin())) return is_public4(read4(bytes, 12));
  if ((bytes[0] & 0xe0) != 0x20) return false;
  const unsigned first = bytes[0] << 8u | bytes[1], second = bytes[2] << 8u | bytes[3];
  if (first == 0x2002) return is_public4(read4(bytes, 2));
  if (first == 0x2001 && second < 0x0200) return false;  // IETF's protocol assignments, Teredo among them
  if (first == 0x2001 && second == 0x0db8) return false;
  return !(first == 0x3fff && second < 0x1000);
}

}  // namespace

bool is_public(const ip::address& address) {
  return address.is_v4() ? is_public4(address.to_v4().to_uint()) : is_public6(address.to_v6());
}

Result<TcpEndpoints> allowed_endpoints(const TcpEndpoints& found, bool allow_private) {
  TcpEndpoints allowed;
  for (const auto& endpoint : found) {
    if (allow_private || is_public(endpoint.address())) allowed.push_back(endpoint);
  }
  if (allowed.empty()) return fail(Errc::access_denied, "events: the target lies in a private network");
  return allowed;
}

}  // namespace verbena::events
