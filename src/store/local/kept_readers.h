// Readers of large objects, kept for the next request: a range of a large object is often one of many, and looking up
// thousands of parts for each costs more than reading it.
//
// A kept reader pins its blobs like any other, so it must be released when they are to be collected (release()). It is
// found only by the same head that it was opened with. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store::local {

class KeptReaders {
 public:
  // Null when there is none. `head`: the object's current head in the index.
  std::shared_ptr<ObjectReader> find(uint64_t object, std::string_view head);
  // `blob`: one of the object's, all of which die together.
  void keep(uint64_t object, std::string head, uint64_t blob, std::shared_ptr<ObjectReader> reader);
  // Releases the readers of these blobs, which are to be collected.
  void release(const std::vector<uint64_t>& blobs);
  // Releases all, and keeps none from now on.
  void close();

 private:
  struct Kept {
    uint64_t object = 0;
    std::string head;
    uint64_t blob = 0;
    std::shared_ptr<ObjectReader> reader;
  };
  std::mutex mutex_;
  std::list<Kept> kept_;  // the last used first
  bool closed_ = false;
};

}  // namespace verbena::store::local
