// What a Source may be, too: one whose bytes are in the arena already, so that its reader need not copy them.
#pragma once

#include <optional>

#include "memory/arena.h"

namespace verbena::memory {

class GivesChunk {
 public:
  // After ready(), before the first read(): all bytes of the source, which are the caller's from now on; read() then
  // returns its end. nullopt: they have to be read.
  virtual std::optional<Chunk> give_all() = 0;

 protected:
  ~GivesChunk() = default;
};

}  // namespace verbena::memory
