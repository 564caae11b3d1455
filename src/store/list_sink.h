// Where a page of a listing goes, object by object, without an ObjectInfo for each: what a door shows of an object is
// in its row, and is copied from there once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"

namespace verbena::store {

// Names of one header and one attribute that a sink wants of each object. Empty: none. Literals.
struct WantedOfHeads {
  std::string_view header, attribute;
};

// What a listing shows of an object. The views are of its row, and valid while the sink's call lasts.
struct ListedHead {
  uint64_t size = 0;        // bytes
  int64_t modified_us = 0;  // since the epoch
  std::string_view etag;
  std::string_view header, attribute;  // the values of those that the sink wants; empty: it has none
  // Of its checksums, in their order.
  std::array<Algorithm, std::size(all_algorithms)> algorithms;
  uint8_t algorithm_count = 0;
  bool composite = false;  // the first is one over parts
};

// Gets objects and common prefixes in byte order of their names, on one thread after the other. Owned by the request,
// for a look may outlive the coroutine that waits for it.
class ListSink {
 public:
  explicit ListSink(WantedOfHeads wanted = {}) : wanted_(wanted) {}
  virtual ~ListSink() = default;
  const WantedOfHeads& wanted() const { return wanted_; }
  // Forgets what it has: the page begins anew.
  virtual void restart() = 0;
  // False: it has no room. The page is truncated, and ends before this one.
  virtual bool add(std::string_view key, const ListedHead& head) = 0;
  virtual bool add_prefix(std::string_view prefix) = 0;

 private:
  const WantedOfHeads wanted_;
};

// Keeps objects, without an allocation for each: the texts of a page lie in one piece of memory, all else in another.
// Common prefixes are left out.
class ListedObjects final : public ListSink {
 public:
  struct Entry {
    std::string_view key, etag;
    uint64_t size = 0;
    int64_t modified_us = 0;
  };
  void restart() override {
    text_.clear();
    places_.clear();
  }
  bool add(std::string_view key, const ListedHead& head) override {
    places_.push_back({text_.size(), key.size(), head.etag.size(), head.size, head.modified_us});
    text_.append(key).append(head.etag);
    return true;
  }
  bool add_prefix(std::string_view /*prefix*/) override { return true; }
  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }
  // In the order in which they were added. The views are valid until the next add().
  Entry operator[](size_t i) const {
    const Place& place = places_[i];
    const std::string_view text = std::string_view(text_).substr(place.at);
    return {.key = text.substr(0, place.key_size),
            .etag = text.substr(place.key_size, place.etag_size),
            .size = place.size,
            .modified_us = place.modified_us};
  }

 private:
  struct Place {
    size_t at, key_size, etag_size;  // in `text_`
    uint64_t size;
    int64_t modified_us;
  };
  std::string text_;
  std::vector<Place> places_;
};

}  // namespace verbena::store
