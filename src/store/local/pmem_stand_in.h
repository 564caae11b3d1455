// For tests of a whole server where the machine has no persistent memory.
#pragma once

#include <filesystem>

#include "store/local/persistent_memory.h"

namespace verbena::store::local {

// From here on these are the machine's (real_persistent_memories()); null: its own are again. They outlive every store
// that is opened meanwhile. Not while a store is being opened.
void stand_in_for_persistent_memory(PersistentMemories* memories);

// Files are device-dax nodes, whose number is 0:0.
struct DaxStandIn {
  std::filesystem::path sys;  // what the kernel would tell of them
};
// As above.
void stand_in_for_dax_nodes(const DaxStandIn* other);

}  // namespace verbena::store::local
