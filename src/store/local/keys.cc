#include "store/local/keys.h"

namespace verbena::store::local::keys {

std::string epoch() { return "m:epoch"; }
std::string scrub() { return "m:scrub"; }
std::string space_kept() { return "m:kept"; }
std::string pmem_log() { return "m:pmem"; }
std::string pmem_over() { return "m:pmem-over"; }
std::string device() { return "m:device"; }
std::string volume_clean(uint64_t volume) { return tagged('v', volume); }
std::string dead_prefix() { return "d"; }
std::string dead(uint64_t blob) { return tagged('d', blob); }
std::optional<uint64_t> parse_dead(std::string_view key) {
  if (key.size() != 9 || key[0] != 'd') return std::nullopt;
  return read_number(key.substr(1));
}

std::string removed_bucket_prefix() { return "r"; }
std::string removed_bucket(uint64_t bucket) { return tagged('r', bucket); }
std::optional<uint64_t> parse_removed_bucket(std::string_view key) {
  if (key.size() != 9 || key[0] != 'r') return std::nullopt;
  return read_number(key.substr(1));
}

std::string usage_prefix() { return "u"; }
std::string usage(uint64_t bucket) { return tagged('u', bucket); }

std::string segment(uint64_t blob, uint32_t n) {
  std::string key = number(blob);
  append_number(key, n, 4);
  return key;
}
std::optional<std::pair<uint64_t, uint32_t>> parse_segment(std::string_view key) {
  if (key.size() != 12) return std::nullopt;
  return std::pair(read_number(key.substr(0, 8)), static_cast<uint32_t>(read_number(key.substr(8))));
}
std::string extent_prefix(uint64_t volume) { return number(volume); }
std::string extent(uint64_t volume, uint64_t offset) {
  std::string key = number(volume);
  append_number(key, offset, 8);
  return key;
}
std::optional<std::pair<uint64_t, uint64_t>> parse_extent(std::string_view key) {
  if (key.size() != 16) return std::nullopt;
  return std::pair(read_number(key.substr(0, 8)), read_number(key.substr(8)));
}
std::string in_index(uint64_t blob) { return number(blob); }

}  // namespace verbena::store::local::keys
