// Tokens of every dialect: `x-amz-rdma-token`. A token is a bearer capability for the client's memory: it is never
// logged whole and never kept past its request. Sources: Ceph's s3-rdma.rst, the NIXL obj plugin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::rdma {

enum class Dialect : uint8_t {
  ofi1,      // <base hex>:<size hex>:ofi1:<provider>:<endpoint name hex>:<key hex>
  ofi1_raw,  // the same with a raw key (longer than 8 bytes): recognised and declined
  cuobject,  // recognised and declined
  hipobj,    // recognised and declined
};

inline constexpr size_t token_size_max = 1024;         // characters
inline constexpr size_t endpoint_name_size_max = 192;  // bytes

struct Token {
  Dialect dialect = Dialect::ofi1;
  // ofi1 only:
  std::string provider;
  std::string endpoint_name;  // raw bytes
  uint64_t base = 0;
  uint64_t size = 0;  // bytes
  uint64_t key = 0;
};

// invalid_rdma_token for text that is no known dialect, fields out of range, or base + size overflowing.
Result<Token> parse_token(std::string_view text);

// The ofi1 text of a token (client side).
std::string format_token(const Token& token);

// The loggable part: dialect, provider, size. Never key, base or endpoint name.
std::string redacted(const Token& token);

}  // namespace verbena::rdma
