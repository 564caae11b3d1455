#include "store/local/volume_name.h"

#include <fmt/format.h>

#include <charconv>

namespace verbena::store::local {

std::string volume_file_name(uint64_t id) { return fmt::format("{:016x}.volume", id); }

std::optional<uint64_t> parse_volume_file_name(std::string_view name) {
  uint64_t id = 0;
  const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), id, 16);
  if (ec != std::errc() || volume_file_name(id) != name) return std::nullopt;
  return id;
}

}  // namespace verbena::store::local
