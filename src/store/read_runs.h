// Readers whose engine can fetch several chunks in one call, if they are requested in one turn of a core.
#pragma once

#include "store/store.h"

namespace verbena::store {

class ReadsRuns {
 public:
  // A multiple of the chunk size; runs begin at its multiples.
  virtual uint64_t run_bytes() const = 0;

 protected:
  ~ReadsRuns() = default;
};

// The bytes that a read-ahead requests together: a chunk, unless the reader has a larger run.
inline uint64_t run_bytes_of(const ObjectReader& reader) {
  const auto* runs = dynamic_cast<const ReadsRuns*>(&reader);
  return runs == nullptr ? ObjectReader::chunk_size_max : runs->run_bytes();
}

}  // namespace verbena::store
