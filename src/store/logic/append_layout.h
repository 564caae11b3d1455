// Which parts an append takes into the part that it writes.
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

// A last part goes into the next one while both are no more than this: so few bytes lie with the rows, sealed ones too.
// What lies there costs no write to a volume, and no wait for one, until eight such parts become one.
inline constexpr uint64_t tail_size = 16 * KiB - 256;
// Parts from this on stay as they are.
inline constexpr uint64_t settled_size = 1 * MiB;
// So many parts of about one size become one.
inline constexpr size_t fan_in = 8;

// How many of the last parts, for an append of `added` bytes. Only parts that appends made are taken.
size_t parts_to_absorb(const std::vector<StoredPart>& parts, uint64_t added);

// The CRC of a concatenation, in raw digest bytes. nullopt: no CRC, or none of that length.
std::optional<std::string> combine_crcs(Algorithm algorithm, std::string_view before, std::string_view added,
                                        uint64_t added_size);

}  // namespace verbena::store
