// write_hex() of runs of bytes of one length that lie one after the other: with AVX2 where the processor has it.
#pragma once

#include "base/bytes.h"

namespace verbena {

// The digits of each `size` bytes, `stride` behind those of the ones before.
void write_hex_run(Bytes bytes, size_t size, char* to, size_t stride);

}  // namespace verbena
