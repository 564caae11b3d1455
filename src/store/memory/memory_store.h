// The engine that keeps nothing on disk: rows in ordered maps, bytes on the heap. For tests, for trials and for scratch
// data: its contents are gone when it is closed. The semantics are those of store.h, so every read is checked against
// checksums here, too.
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
  memory::Arena* arena = nullptr;  // memory for reads; must outlive the store
  const WallClock* clock = &system_clock();
  uint64_t bytes_max = UINT64_MAX;  // of rows and bytes; beyond them PUTs get insufficient_storage, deletes still work
};

class Engine;

class MemoryStore : public EngineStore {
 public:
  explicit MemoryStore(Options options);
  ~MemoryStore() override;

  struct Usage {
    uint64_t blob_bytes = 0, blobs = 0;  // named by a row or held by a reader
    uint64_t row_bytes = 0, rows = 0;
  };
  Usage usage() const;

  // The number of blobs that no row names; 0 in a sound store. corrupt_object: a row names a missing blob. Walks
  // everything.
  Result<uint64_t> unnamed_blobs() const;

  // For tests: flips a bit of the key's current object as stored, if it has a byte at `offset`.
  Task<Result<void>> damage(std::string_view bucket, std::string_view key, uint64_t offset);

 private:
  explicit MemoryStore(std::shared_ptr<Engine> engine);
  std::shared_ptr<Engine> engine_;
};

}  // namespace verbena::store::in_memory
