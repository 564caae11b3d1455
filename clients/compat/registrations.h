// What is registered, by the address at which it begins. Registrations may overlap: an address counts as registered
// while any of them holds it.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace verbena::compat {

// `Registered` has a `size`, and is an aggregate. Not thread-safe. A look-up takes the time of a search, however many
// there are: each knows which of those up to it reaches farthest.
template <class Registered>
class Registrations {
 public:
  struct Entry : Registered {
    void* farthest = nullptr;  // the beginning of that one
  };
  using Map = std::map<void*, Entry>;
  using Place = Map::iterator;

  Place find(void* memory) { return all_.find(memory); }
  Place end() { return all_.end(); }
  bool empty() const { return all_.empty(); }

  // The place is the old one, unchanged, if there is a registration from that address on.
  std::pair<Place, bool> add(void* memory, Registered registered) {
    const auto added = all_.try_emplace(memory, Entry{std::move(registered), nullptr});
    if (added.second) note_farthest(added.first);
    return added;
  }

  void erase(Place place) { note_farthest(all_.erase(place)); }

  // One that holds the `size` bytes at `offset` from `memory`, which it holds, too: the one that begins nearest, or
  // else the one that reaches farthest. end(): there is none.
  Place holding(void* memory, size_t offset, size_t size) {
    const Place nearest = up_to(memory);
    if (nearest == all_.end()) return nearest;
    const auto holds = [&](Place place) {
      const size_t room = room_in(place, memory);
      return room > 0 && offset <= room && size <= room - offset;
    };
    if (holds(nearest)) return nearest;
    const Place farthest = all_.find(nearest->second.farthest);
    return holds(farthest) ? farthest : all_.end();
  }

  // The bytes from `memory` on that one registration holds, of the one that reaches farthest; 0 if there is none.
  size_t reach(void* memory) {
    const Place nearest = up_to(memory);
    return nearest == all_.end() ? 0 : room_in(all_.find(nearest->second.farthest), memory);
  }

  // Why holding() found none.
  const char* refusal(void* memory) {
    return reach(memory) == 0 ? "not registered" : "not inside the registered memory";
  }

  static size_t offset_in(Place place, void* memory) {
    return static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(place->first));
  }

 private:
  // The last one that begins at `memory` or before; end(): there is none.
  Place up_to(void* memory) {
    const Place after = all_.upper_bound(memory);
    return after == all_.begin() ? all_.end() : std::prev(after);
  }

  // What it holds from `memory` on, where it does not begin later.
  static size_t room_in(Place place, void* memory) {
    const size_t offset = offset_in(place, memory), size = place->second.size;
    return offset < size ? size - offset : 0;
  }

  // From `place` on, until nothing changes: where registrations do not overlap, at the next one.
  void note_farthest(Place place) {
    for (; place != all_.end(); ++place) {
      void* farthest = place->first;
      if (place != all_.begin()) {
        void* const before = std::prev(place)->second.farthest;
        if (room_in(all_.find(before), place->first) >= place->second.size) farthest = before;
      }
      if (place->second.farthest == farthest) return;
      place->second.farthest = farthest;
    }
  }

  Map all_;
};

}  // namespace verbena::compat
