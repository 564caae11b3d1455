#include "auth/networks.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace verbena::auth {
namespace {

constexpr std::array special_v4 = {"0.0.0.0/8",      "10.0.0.0/8",     "100.64.0.0/10", "127.0.0.0/8",
                                   "169.254.0.0/16", "172.16.0.0/12",  "192.0.0.0/24",  "192.0.2.0/24",
                                   "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
                                   "203.0.113.0/24", "224.0.0.0/3"};
constexpr const char* global_v6 = "2000::/3";
// Exceptions from the global range: protocol assignments and Teredo, ORCHID, documentation.
constexpr std::array special_v6 = {"2001::/23", "2001:db8::/32", "3fff::/20"};

struct Wrapping {
  const char* range;
  size_t at;  // the position of the IPv4 address
};
constexpr std::array wrappings = {Wrapping{"64:ff9b::/96", 12}, Wrapping{"2002::/16", 2}};

bool is_within(const char* range, const IpAddress& address) {
  const auto parsed = parse_ip_range(range);
  return parsed && parsed->contains(address);
}

IpAddress unwrapped(const IpAddress& address, size_t at) {
  IpAddress v4;
  std::copy_n(address.bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, v4.bytes.begin());
  return v4;
}

}  // namespace

bool is_public(const IpAddress& address) {
  const auto holds_it = [&](const char* range) { return is_within(range, address); };
  if (!address.v6) return std::ranges::none_of(special_v4, holds_it);
  for (const Wrapping& one : wrappings) {
    if (is_within(one.range, address)) return is_public(unwrapped(address, one.at));
  }
  return is_within(global_v6, address) && std::ranges::none_of(special_v6, holds_it);
}

std::expected<Networks, std::string> Networks::parse(const std::vector<std::string>& ranges) {
  Networks out;
  for (const std::string& text : ranges) {
    const auto range = parse_ip_range(text);
    if (!range) return std::unexpected("'" + log::printable(text, 64) + "' is not a network like 10.0.0.0/8");
    out.allowed_.push_back(*range);
  }
  return out;
}

bool Networks::allow(std::string_view address) const {
  const auto parsed = parse_ip(address);
  if (!parsed) return false;
  return is_public(*parsed) ||
         std::ranges::any_of(allowed_, [&](const auto& range) { return range.contains(*parsed); });
}

}  // namespace verbena::auth
