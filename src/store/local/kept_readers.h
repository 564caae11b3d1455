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
  // `blobs`: all that the reader pins. An append may take some of an object's and leave the others.
  void keep(uint64_t object, std::string head, std::vector<uint64_t> blobs, std::shared_ptr<ObjectReader> reader);
  // Releases the readers of any of these blobs, which are to be collected.
  void release(const std::vector<uint64_t>& blobs);
  // Releases all, and keeps none from now on.
  void close();

 private:
  struct Kept {
    uint64_t object = 0;
    std::string head;
    std::vector<uint64_t> blobs;  // sorted
    std::shared_ptr<ObjectReader> reader;
  };
  std::mutex mutex_;
  std::list<Kept> kept_;  // the last used first
  bool closed_ = false;
};

}  // namespace verbena::store::local
