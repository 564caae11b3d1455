#include "sign_in/familiar_places.h"

#include <algorithm>

namespace verbena::sign_in {

bool FamiliarPlaces::knows(const std::string& name, const std::string& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() && std::ranges::find(found->second.places, place) != found->second.places.end();
}

void FamiliarPlaces::remember(const std::string& name, const std::string& place) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= names_max_ && !entries_.contains(name)) {
    const auto sooner = [](const auto& a, const auto& b) { return a.second.used < b.second.used; };
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), sooner));
  }
  Entry& entry = entries_[name];
  entry.used = ++uses_;
  std::erase(entry.places, place);
  entry.places.push_front(place);
  if (entry.places.size() > places_max_) entry.places.pop_back();
}

}  // namespace verbena::sign_in
