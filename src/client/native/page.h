// A page of a listing as the server sent it: the items stay in its replies, and names and ETags are views of those.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "native/wire/bodies.h"

namespace verbena::client {

class NativePage {
 public:
  // Copies the items of a decoded reply.
  void add(const native::wire::ListReply& reply) {
    const std::byte* const items = reply.items.data();
    replies_.push_back({{items, items + reply.items.size()}, reply.count});
    items_ += reply.count;
    truncated = reply.truncated;
    next_after.assign(truncated ? reply.last_key : std::string_view());
  }
  // Adds the items of the page that follows this one.
  void add(NativePage next) {
    for (Items& reply : next.replies_) replies_.push_back(std::move(reply));
    items_ += next.items_;
    truncated = next.truncated;
    next_after = std::move(next.next_after);
  }
  size_t items() const { return items_; }  // objects and common prefixes
  // Passes the items in the order of their names to `visit`, until it returns false. Their views are valid as long as
  // the page.
  template <class Visit>
  void each(const Visit& visit) const {
    for (const Items& reply : replies_) {
      native::wire::Reader in(reply.bytes);
      for (uint32_t i = 0; i < reply.count; ++i) {
        const auto item = native::wire::next_item(in);  // the reply's decoding has read it before
        if (!item || !visit(*item)) return;
      }
    }
  }

  bool truncated = false;
  std::string next_after;

 private:
  struct Items {
    std::vector<std::byte> bytes;
    uint32_t count = 0;
  };
  std::vector<Items> replies_;
  size_t items_ = 0;
};

}  // namespace verbena::client
