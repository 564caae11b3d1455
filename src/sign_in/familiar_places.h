// Addresses from which users have signed in successfully, by name. Bounded; the least recently used is dropped first.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace verbena::sign_in {

// Thread-safe.
class FamiliarPlaces {
 public:
  explicit FamiliarPlaces(size_t names_max = 4096, size_t places_max = 8)
      : names_max_(names_max), places_max_(places_max) {}

  bool knows(const std::string& name, const std::string& place) const;
  // Bounded per name, so that no user can evict the addresses of others.
  void remember(const std::string& name, const std::string& place);

 private:
  struct Entry {
    std::deque<std::string> places;  // most recent first
    uint64_t used = 0;
  };
  const size_t names_max_, places_max_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace verbena::sign_in
