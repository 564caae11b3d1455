// Of readers whose engine fetches more than a chunk in one call, where the chunks are asked for in one turn of a core.
#pragma once

#include "store/store.h"

namespace verbena::store {

class ReadsRuns {
 public:
  // A multiple of a chunk's; runs begin at its multiples.
  virtual uint64_t run_bytes() const = 0;

 protected:
  ~ReadsRuns() = default;
};

// What whoever reads ahead asks for together: a chunk, where the reader says nothing.
inline uint64_t run_bytes_of(const ObjectReader& reader) {
  const auto* runs = dynamic_cast<const ReadsRuns*>(&reader);
  return runs == nullptr ? ObjectReader::chunk_size_max : runs->run_bytes();
}

}  // namespace verbena::store
