// Tokens of every dialect: `x-amz-rdma-token`. A token is a bearer capability for the client's memory: it is never
// logged whole and never kept past its request. Sources: Ceph's s3-rdma.rst, the NIXL obj plugin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/fabric.h"

namespace verbena::rdma {

// The form of a token's text, which tells its dialect (docs/dialects.md).
enum class TokenForm : uint8_t {
  ofi1,         // <base hex>:<size hex>:ofi1:<provider>:<endpoint name hex>:<key hex>, perhaps with ":<address>:<size>"
  ofi1_sealed,  // the same with "ofi1s": its bytes move sealed, by the key in x-verbena-rdma-sealing
  ofi1_raw,     // the same with a raw key (longer than 8 bytes)
  cuobject,     // <base hex>:<size hex>:<rkey>:<lid>:<DC target>:<GID present>:<GID>: dynamically connected queue pairs
  cuobject_rc,  // rc:<connection, 32 hex>:<base hex>:<size hex>:<rkey hex>: a queue pair that was connected before
  hipobj,       // 88 hex digits, perhaps with ":<base>:<size>": hipObject's, on the object itself
  unknown,
};
inline constexpr size_t token_forms = 7;

inline constexpr size_t token_size_max = 1024;         // characters
inline constexpr size_t endpoint_name_size_max = 192;  // bytes

// The target of a token of cuobject: a queue pair that any number of initiators connect to, one after the other.
struct DcTarget {
  uint32_t number = 0;  // 24 bits
  uint16_t lid = 0;
  std::optional<std::array<std::byte, 16>> gid{};
};

struct Token {
  TokenForm form = TokenForm::ofi1;
  std::string provider;       // of ofi1 and ofi1_sealed
  std::string endpoint_name;  // of those: raw bytes; of cuobject_rc: the connection's id, 32 lower-case hex digits
  // Of those, cuobject_rc and cuobject:
  uint64_t base = 0;
  uint64_t size = 0;  // bytes
  uint64_t key = 0;
  DcTarget target{};           // of cuobject
  const char* flaw = nullptr;  // of cuobject: why it cannot be served, a constant text; then only the size counts
  // Of ofi1_sealed, from the header beside it (rdma/sealing.h): its transfer's cipher and key.
  std::optional<fabric::ConnectionKey> seal{};
};

// invalid_rdma_token: a token of ofi1 or ofi1s with fields out of range, or base + size overflowing. A token of any
// other form is recognised, however malformed: a client that gets a 400 has no way to fall back.
Result<Token> parse_token(std::string_view text);

// The text of a token of ofi1 or ofi1s (client side).
std::string format_token(const Token& token);

// The loggable part: form, provider, size. Never key, base or endpoint name.
std::string redacted(const Token& token);

}  // namespace verbena::rdma
