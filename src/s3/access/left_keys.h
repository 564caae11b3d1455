// The keys that were evicted last, by their hashes: whether a new one has been here. A table of small sets without
// pointers, in each of which a new hash takes the place of the oldest. So a hash is forgotten early where more than a
// set's places fall into one set, which is seldom, since the table has at least one and a half times as many places as
// hashes are asked for; and a table that has become too small, or much too large, begins anew. Both make the answer no,
// which costs a key its head start alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace verbena::s3 {

class LeftKeys {
 public:
  // `last`: of how many hashes has() is going to be asked. Throws std::bad_alloc.
  void add(size_t hash, size_t last) {
    const size_t wanted = std::max(last, places_min);
    if (places_ < wanted + wanted / 2 || places_ > 16 * wanted) grow(3 * wanted);
    ++count_;
    const auto places = set_of(hash);
    *std::ranges::max_element(places, {}, [this](const Place& one) { return age(one); }) = {mark_of(hash), count_};
  }
  // Whether it is one of the `last` ones that were added.
  bool has(size_t hash, size_t last) const {
    if (places_ == 0) return false;
    return std::ranges::any_of(
        set_of(hash), [&](const Place& one) { return one.added != 0 && one.mark == mark_of(hash) && age(one) < last; });
  }
  void clear() {
    table_.reset();
    places_ = 0;
  }

 private:
  static constexpr size_t places_min = 64, of_set = 8;
  struct Place {
    uint32_t mark = 0;
    uint32_t added = 0;  // the number of its addition; 0: free
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  static uint32_t mark_of(size_t hash) { return static_cast<uint32_t>(hash >> 32); }
  uint32_t age(const Place& one) const { return one.added == 0 ? UINT32_MAX : count_ - one.added; }
  std::span<Place> set_of(size_t hash) const { return {table_.get() + hash % (places_ / of_set) * of_set, of_set}; }
  void grow(size_t places) {
    places_ = 0;
    table_.reset(static_cast<Place*>(std::calloc(std::bit_ceil(places), sizeof(Place))));  // a large one costs no time
    if (table_ == nullptr) throw std::bad_alloc();
    places_ = std::bit_ceil(places);
  }

  std::unique_ptr<Place[], Free> table_;
  size_t places_ = 0;
  uint32_t count_ = 0;
};

}  // namespace verbena::s3
