// What the first lines of a log on persistent memory (pmem_log.h) tell one that only looks at it.
#pragma once

#include <cstdint>
#include <optional>

#include "store/local/persistent_memory.h"

namespace verbena::store::local {

struct PmemLogFacts {
  uint64_t size = 0;     // bytes, as its maker said
  bool is_held = false;  // its store has it, or ended without giving it back; false of an older program's
};

// Of the log at this offset, also one of an older program; none: there is none whose first line is whole.
std::optional<PmemLogFacts> look_at_pmem_log(const PersistentMemory& memory, uint64_t offset);

}  // namespace verbena::store::local
