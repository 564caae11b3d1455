// What a brief listing has of its objects. The texts of a page lie in one piece of memory, all else in another: a page
// has up to a thousand objects, and none costs an allocation of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::store {

class BriefEntries {
 public:
  struct Entry {
    std::string_view key, etag;
    uint64_t size = 0;        // bytes
    int64_t modified_us = 0;  // since the epoch
  };
  // Copies the texts.
  void add(const Entry& entry) {
    places_.push_back({text_.size(), entry.key.size(), entry.etag.size(), entry.size, entry.modified_us});
    text_.append(entry.key).append(entry.etag);
  }
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
