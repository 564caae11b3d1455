// A queue whose owners take turns, so that an owner with many items delays another one's by no more than one item a
// turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verbena {

// An owner's items keep their order. Of what is in the queue, before an owner's n-th item come n items of each other
// owner at most. Not thread-safe.
template <class Item>
class OwnersQueue {
 public:
  struct Taken {
    std::string owner;
    Item item;
  };

  void add(const std::string& owner, Item item) {
    auto& own = items_[owner];
    if (own.empty()) order_.push_back(owner);
    own.push_back(std::move(item));
  }

  // The next item that `may` accepts, which is asked for each owner's first: may(owner, item). nullopt: none.
  template <class May>
  std::optional<Taken> next(const May& may) {
    for (auto turn = order_.begin(); turn != order_.end(); ++turn) {
      const auto own = items_.find(*turn);
      if (!may(std::as_const(*turn), std::as_const(own->second.front()))) continue;
      Taken taken{std::move(*turn), std::move(own->second.front())};
      order_.erase(turn);
      own->second.pop_front();
      if (own->second.empty()) {
        items_.erase(own);
      } else {
        order_.push_back(taken.owner);
      }
      return taken;
    }
    return std::nullopt;
  }
  std::optional<Taken> next() {
    return next([](const std::string&, const Item&) { return true; });
  }

  // Removes of each owner the leading items that `wanted` accepts. No turn is lost by it.
  template <class Wanted>
  std::vector<Item> take_leading(const Wanted& wanted) {
    std::vector<Item> taken;
    std::erase_if(order_, [&](const std::string& owner) {
      const auto own = items_.find(owner);
      auto& queue = own->second;
      for (; !queue.empty() && wanted(std::as_const(queue.front())); queue.pop_front()) {
        taken.push_back(std::move(queue.front()));
      }
      if (!queue.empty()) return false;
      items_.erase(own);
      return true;
    });
    return taken;
  }

 private:
  std::unordered_map<std::string, std::deque<Item>> items_;  // of owners that have some
  std::deque<std::string> order_;                            // of those, the next first
};

// The items in the order of such a queue.
template <class Item, class OwnerOf>
std::vector<Item> in_turns(std::vector<Item> items, OwnerOf owner_of) {
  OwnersQueue<Item> queue;
  for (Item& item : items) {
    const std::string owner = owner_of(std::as_const(item));
    queue.add(owner, std::move(item));
  }
  items.clear();
  while (auto taken = queue.next()) items.push_back(std::move(taken->item));
  return items;
}

}  // namespace verbena
