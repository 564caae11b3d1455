// The description of a queue pair that peers exchange: hipObject's token, 44 bytes as 88 hexadecimal digits, numbers in
// little-endian order: transport (1: reliable connection), queue pair (4), GID (16), remote key (4), address (8),
// length (8), port (1), LID (2). Source: hipObject, src/rdma/token.cpp.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace verbena::rdma::rc {

using Gid = std::array<std::byte, 16>;

inline constexpr uint32_t number_max = 0xffffff;  // of queue pairs and of packet sequences: 24 bits

struct PeerToken {
  uint32_t queue_pair = 0;
  Gid gid{};
  uint32_t key = 0;
  uint64_t address = 0;
  uint64_t length = 0;
  uint8_t port = 1;
  uint16_t lid = 0;

  // A token of zeros alone: the client is on the server's own device.
  bool is_loopback() const { return gid == Gid{}; }
};

// Text of exactly that form, or followed by ":<address>:<size>", which is not read. nullopt: another form or transport.
std::optional<PeerToken> parse_peer_token(std::string_view text);
std::string format_peer_token(const PeerToken& token);

// The IP address in a GID; IPv4-mapped ones come out as IPv4.
boost::asio::ip::address address_of(const Gid& gid);

}  // namespace verbena::rdma::rc
