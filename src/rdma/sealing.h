// What goes beside a token of ofi1s, in a request and its answer over https (docs/sealed-rdma.md, "Tokens").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fabric/sealed/cipher.h"

namespace verbena::rdma {

// Of a request: a cipher and the transfer's key, which the client makes for that request alone. A secret: over https
// only, and never logged.
inline constexpr std::string_view sealing_header = "x-verbena-rdma-sealing";
std::string format_sealing(const fabric::ConnectionKey& key);
std::optional<fabric::ConnectionKey> parse_sealing(std::string_view text);  // nullopt: malformed, or an unknown cipher

// Of an answer: that the bytes moved sealed, with the server's salt.
inline constexpr std::string_view sealed_header = "x-verbena-rdma-sealed";
std::string format_sealed(const fabric::sealed::Salt& salt);
std::optional<fabric::sealed::Salt> parse_sealed(std::string_view text);

}  // namespace verbena::rdma
