// An order of work in which owners take turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbena::s3 {

// First each owner's first item, then each owner's second one, and so on: before an owner's n-th item come n items of
// each other owner at most. An owner's items keep their order.
template <class Item, class OwnerOf>
std::vector<Item> in_turns(std::vector<Item> items, OwnerOf owner_of) {
  std::map<std::string, size_t> taken;
  std::vector<std::pair<size_t, Item>> numbered;
  numbered.reserve(items.size());
  for (Item& item : items) {
    const size_t turn = taken[owner_of(item)]++;
    numbered.emplace_back(turn, std::move(item));
  }
  std::ranges::stable_sort(numbered, {}, &std::pair<size_t, Item>::first);
  std::ranges::transform(numbered, items.begin(), [](auto& one) { return std::move(one.second); });
  return items;
}

}  // namespace verbena::s3
