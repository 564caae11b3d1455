// What is registered, by the address at which it begins. Registrations may overlap: an address counts as registered
// while any of them holds it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace verbena::compat {

// `Registered` has a `size`. Not thread-safe.
template <class Registered>
class Registrations {
 public:
  using Map = std::map<void*, Registered>;
  using Place = Map::iterator;

  Place find(void* memory) { return all_.find(memory); }
  Place end() { return all_.end(); }
  bool empty() const { return all_.empty(); }

  // The place is the old one, unchanged, if there is a registration from that address on.
  std::pair<Place, bool> add(void* memory, Registered registered) {
    const size_t size = registered.size;
    const auto added = all_.try_emplace(memory, std::move(registered));
    if (added.second) longest_ = std::max(longest_, size);
    return added;
  }

  void erase(Place place) {
    const size_t size = place->second.size;
    all_.erase(place);
    if (size < longest_) return;
    longest_ = 0;
    for (const auto& [memory, left] : all_) longest_ = std::max(longest_, left.size);
  }

  // One that holds the `size` bytes at `offset` from `memory`, which it holds, too: of several the one that begins
  // nearest. end(): there is none.
  Place holding(void* memory, size_t offset, size_t size) {
    return around(memory, [&](size_t room) { return offset <= room && size <= room - offset; });
  }

  // The bytes from `memory` on that one registration holds, of the one that reaches farthest; 0 if there is none.
  size_t reach(void* memory) {
    size_t farthest = 0;
    around(memory, [&](size_t room) {
      farthest = std::max(farthest, room);
      return false;
    });
    return farthest;
  }

  static size_t offset_in(Place place, void* memory) {
    return static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(place->first));
  }

 private:
  // The nearest registration that holds `memory` and whose bytes from there on `wanted` accepts.
  template <class Wanted>
  Place around(void* memory, const Wanted& wanted) {
    for (auto place = all_.upper_bound(memory); place != all_.begin();) {
      --place;
      const size_t offset = offset_in(place, memory);
      if (offset >= longest_) break;
      if (offset < place->second.size && wanted(place->second.size - offset)) return place;
    }
    return all_.end();
  }

  Map all_;
  size_t longest_ = 0;  // of them
};

}  // namespace verbena::compat
