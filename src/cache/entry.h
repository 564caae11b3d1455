// What the hot tier caches, and by what name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace verbena::cache {

// Two words of an entry's own that a glance reads without touching the entry. The tier does not interpret them.
struct Label {
  uint64_t first = 0, second = 0;
};

// A cached item: immutable, shared by the tier and all its readers.
class Entry {
 public:
  virtual ~Entry() = default;
  virtual size_t held_bytes() const = 0;      // bytes of memory held; constant
  virtual Label label() const { return {}; }  // constant
};
using EntryPtr = std::shared_ptr<const Entry>;

struct Key {
  std::string_view bucket, name;
};

}  // namespace verbena::cache
