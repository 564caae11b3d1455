#include "rdma/rc/peer_token.h"

#include <algorithm>

#include "base/hex.h"

namespace verbena::rdma::rc {
namespace {

constexpr size_t peer_token_size = 44;
constexpr std::byte reliable_connection{1};

uint64_t little_endian(Bytes bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

void put_little_endian(MutableBytes into, uint64_t value) {
  for (std::byte& b : into) {
    b = static_cast<std::byte>(value);
    value >>= 8;
  }
}

// The fields in their order.
template <class Use>
void each_field(MutableBytes all, Use use) {
  constexpr std::array<size_t, 8> sizes{1, 4, 16, 4, 8, 8, 1, 2};
  size_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    use(i, all.subspan(at, sizes[i]));
    at += sizes[i];
  }
}

}  // namespace

std::optional<PeerToken> parse_peer_token(std::string_view text) {
  std::array<std::byte, peer_token_size> all;
  const std::string_view digits = text.substr(0, text.find(':'));
  if (!read_hex(digits, all)) return std::nullopt;
  PeerToken token;
  if (std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0}; })) return token;
  if (all[0] != reliable_connection) return std::nullopt;
  each_field(all, [&](size_t i, Bytes field) {
    if (i == 1) token.queue_pair = static_cast<uint32_t>(little_endian(field));
    if (i == 2) std::ranges::copy(field, token.gid.begin());
    if (i == 3) token.key = static_cast<uint32_t>(little_endian(field));
    if (i == 4) token.address = little_endian(field);
    if (i == 5) token.length = little_endian(field);
    if (i == 6) token.port = std::to_integer<uint8_t>(field[0]);
    if (i == 7) token.lid = static_cast<uint16_t>(little_endian(field));
  });
  return token;
}

std::string format_peer_token(const PeerToken& token) {
  std::array<std::byte, peer_token_size> all;
  each_field(all, [&](size_t i, MutableBytes field) {
    if (i == 2) {
      std::ranges::copy(token.gid, field.begin());
      return;
    }
    const std::array<uint64_t, 8> values{1,          token.queue_pair, 0, token.key, token.address, token.length,
                                         token.port, token.lid};
    put_little_endian(field, values[i]);
  });
  return to_hex(all);
}

boost::asio::ip::address address_of(const Gid& gid) {
  namespace ip = boost::asio::ip;
  ip::address_v6::bytes_type raw;
  std::ranges::transform(gid, raw.begin(), [](std::byte b) { return std::to_integer<unsigned char>(b); });
  const ip::address_v6 address(raw);
  if (address.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address);
  return address;
}

}  // namespace verbena::rdma::rc
