// The CRC of a concatenation, by the algorithm's name.
#pragma once

#include <cstdint>

#include "base/checksum.h"

namespace verbena {

// As crc32_combine() and its like in checksum.h, of an algorithm that is a CRC.
uint64_t combine_crcs_of(Algorithm algorithm, uint64_t a, uint64_t b, uint64_t b_size);

}  // namespace verbena
