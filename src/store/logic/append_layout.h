// The choice of parts that an append merges into the part that it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "store/logic/record.h"

namespace verbena::store {

// A last part is merged into the next one while both are no larger than this: so few bytes are stored with the rows,
// sealed ones too. There they cost no write to a volume, and no wait for one, until eight such parts become one.
inline constexpr uint64_t tail_size = 16 * KiB - 256;
// Parts of this size or more are never merged.
inline constexpr uint64_t settled_size = 1 * MiB;
// This many parts of about one size become one.
inline constexpr size_t fan_in = 8;

// How many of the last parts an append of `added` bytes merges. Only parts made by appends are taken.
size_t parts_to_absorb(const std::vector<StoredPart>& parts, uint64_t added);

// The CRC of a concatenation, in raw digest bytes. nullopt: no CRC, or none of that length.
std::optional<std::string> combine_crcs(Algorithm algorithm, std::string_view before, std::string_view added,
                                        uint64_t added_size);

}  // namespace verbena::store
