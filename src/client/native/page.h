// A page of a listing: its items as one piece of memory for their texts and one for all else, however many they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "native/wire/list_items.h"

namespace verbena::client {

class NativePage {
 public:
  // Adds the items of a reply's body. False: it is malformed, and the page is of no use any more.
  bool add(Bytes body, unsigned version) {
    auto in = native::wire::ListReader::open(body, version);
    // An empty page that claims more pages would be requested for ever.
    if (!in || (in->truncated() && in->left() == 0)) return false;
    truncated_ = in->truncated();
    places_.reserve(places_.size() + in->left());
    for (native::wire::ListItem item; in->next(item);) {
      places_.push_back({.at = text_.size(),
                         .key_size = static_cast<uint16_t>(item.key.size()),
                         .etag_size = static_cast<uint8_t>(item.etag.size()),
                         .common_prefix = item.common_prefix,
                         .size = item.size,
                         .modified_us = item.modified_us});
      text_.append(item.key).append(item.etag);
    }
    return in->complete();
  }
  size_t items() const { return places_.size(); }  // objects and common prefixes
  bool truncated() const { return truncated_; }
  // The last name of a truncated page, after which the next one begins; else empty. A view of the page.
  std::string_view next_after() const { return truncated_ ? item(places_.back()).key : std::string_view(); }
  // Passes the items in the order of their names to `visit`, until it returns false. Their views are valid until the
  // next add().
  template <class Visit>
  void each(const Visit& visit) const {
    for (const Place& place : places_) {
      if (!visit(item(place))) return;
    }
  }

 private:
  struct Place {
    size_t at;  // in `text_`: the name, and behind it the ETag
    uint16_t key_size;
    uint8_t etag_size;
    bool common_prefix;
    uint64_t size;
    int64_t modified_us;
  };
  native::wire::ListItem item(const Place& place) const {
    const std::string_view text = std::string_view(text_).substr(place.at);
    return {.common_prefix = place.common_prefix,
            .key = text.substr(0, place.key_size),
            .size = place.size,
            .modified_us = place.modified_us,
            .etag = text.substr(place.key_size, place.etag_size)};
  }

  std::string text_;
  std::vector<Place> places_;
  bool truncated_ = false;
};

}  // namespace verbena::client
