#include "store/logic/append_layout.h"

#include "base/crc_combine.h"
#include "store/logic/keys.h"

namespace verbena::store {
namespace {

// A part's merge level: 0 up to about a tail's size, 1 for what eight of those make, ...
int level_of(uint64_t size) {
  int level = 0;
  for (uint64_t bound = 2 * tail_size; size >= bound; bound *= fan_in) ++level;
  return level;
}

// Whether a part may be merged. Parts of an upload stay: the client knows their size and entity tag.
bool can_go(const StoredPart& part) { return part.info.etag.empty(); }

}  // namespace

size_t parts_to_absorb(const std::vector<StoredPart>& parts, uint64_t added) {
  size_t taken = 0;
  uint64_t size = added;
  const auto next = [&](size_t behind) -> const StoredPart& { return parts[parts.size() - 1 - taken - behind]; };
  if (!parts.empty() && can_go(next(0)) && next(0).info.size < tail_size) {
    const uint64_t together = added + next(0).info.size;
    if (together <= tail_size) return 1;
    if (added >= tail_size) {
      size = together;
      taken = 1;
    }
  }
  while (size < settled_size && parts.size() >= taken + fan_in - 1) {
    uint64_t more = 0;
    for (size_t i = 0; i < fan_in - 1; ++i) {
      const StoredPart& part = next(i);
      if (!can_go(part) || part.info.size >= settled_size || level_of(part.info.size) > level_of(size)) return taken;
      more += part.info.size;
    }
    taken += fan_in - 1;
    size += more;
  }
  return taken;
}

std::optional<std::string> combine_crcs(Algorithm algorithm, std::string_view before, std::string_view added,
                                        uint64_t added_size) {
  const bool wide = algorithm == Algorithm::crc64nvme;
  const size_t width = wide ? 8 : 4;
  if (!wide && algorithm != Algorithm::crc32 && algorithm != Algorithm::crc32c) return std::nullopt;
  if (before.size() != width || added.size() != width) return std::nullopt;
  const uint64_t a = keys::read_number(before), b = keys::read_number(added);
  std::string out;
  keys::append_number(out, combine_crcs_of(algorithm, a, b, added_size), width);
  return out;
}

}  // namespace verbena::store
