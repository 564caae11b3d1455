// The engine that keeps nothing on disk: rows in ordered maps, bytes on the heap. For tests, for trying things out and
// for scratch data: what is in it is gone when it goes. The semantics are those of store.h, so every read is checked
// against checksums here, too.
//
// Used from all cores' threads at once; a writer belongs to the core that made it, a reader may be shared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "store/logic/engine_store.h"

namespace verbena::store::in_memory {

struct Options {
  memory::Arena* arena = nullptr;  // reads are leased from it; outlives the store
  const WallClock* clock = &system_clock();
  uint64_t bytes_max = UINT64_MAX;  // of rows and bytes; beyond them PUTs get insufficient_storage, deletes still work
};

class Engine;

class MemoryStore : public EngineStore {
 public:
  explicit MemoryStore(Options options);
  ~MemoryStore() override;

  struct Usage {
    uint64_t blob_bytes = 0, blobs = 0;  // that a row names or a reader holds
    uint64_t row_bytes = 0, rows = 0;
  };
  Usage usage() const;

  // Blobs that no row names; there are none. corrupt_object: a row names one that is not there. Looks at everything.
  Result<uint64_t> unnamed_blobs() const;

  // For tests: flips a bit of what is stored of the key's current object, where it has a byte at `offset`.
  Task<Result<void>> damage(std::string_view bucket, std::string_view key, uint64_t offset);

 private:
  explicit MemoryStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::in_memory
