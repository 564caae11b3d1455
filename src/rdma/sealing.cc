#include "rdma/sealing.h"

#include "base/hex.h"
#include "fabric/sealing_names.h"

namespace verbena::rdma {

std::string format_sealing(const fabric::ConnectionKey& key) {
  return std::string(fabric::name_of(key.sealing)) + ":" + to_hex(key.bytes);
}

std::optional<fabric::ConnectionKey> parse_sealing(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  fabric::ConnectionKey key;
  key.sealing = fabric::sealing_of(text.substr(0, colon));
  if (key.sealing == fabric::Sealing::none || !read_lower_hex(text.substr(colon + 1), key.bytes)) return std::nullopt;
  return key;
}

std::string format_sealed(const fabric::sealed::Salt& salt) { return to_hex(salt); }

std::optional<fabric::sealed::Salt> parse_sealed(std::string_view text) {
  fabric::sealed::Salt salt;
  if (!read_lower_hex(text, salt)) return std::nullopt;
  return salt;
}

}  // namespace verbena::rdma
