// Space without records that may not be used yet: a group of commits that began before may still be undone, together
// with the removal of the records.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "store/local/index.h"
#include "store/local/record.h"

namespace verbena::store::local {

struct Cooling {
  Index::Moment since;
  std::vector<Extent> pieces;
  bool found = false;  // by a start's search of a volume, and not freed
};

// Not thread-safe.
class CoolingSpace {
 public:
  void add(Cooling cooling) {
    found_ += cooling.found ? 1 : 0;
    first_.push_back(std::move(cooling));
  }
  // The one that cools longest, if it may be used.
  template <class IsPast>
  std::optional<Cooling> take(const IsPast& is_past) {
    if (first_.empty() || !is_past(first_.front().since)) return std::nullopt;
    Cooling taken = std::move(first_.front());
    first_.pop_front();
    found_ -= taken.found ? 1 : 0;
    return taken;
  }
  // What is left now is not looked at again before try_again().
  void set_aside() { std::ranges::move(std::exchange(first_, {}), std::back_inserter(aside_)); }
  void try_again() { std::ranges::move(std::exchange(aside_, {}), std::back_inserter(first_)); }

  bool empty() const { return first_.empty() && aside_.empty(); }
  bool waits() const { return !first_.empty(); }
  // How many volumes' searched space is here. Space that is freed meanwhile comes after it, and does not count.
  size_t found() const { return found_; }
  bool has(uint64_t volume) const {
    const auto its = [volume](const Extent& x) { return x.volume == volume; };
    const auto of_it = [&](const Cooling& cooling) { return std::ranges::any_of(cooling.pieces, its); };
    return std::ranges::any_of(first_, of_it) || std::ranges::any_of(aside_, of_it);
  }

 private:
  std::deque<Cooling> first_, aside_;
  size_t found_ = 0;
};

}  // namespace verbena::store::local
