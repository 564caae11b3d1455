#include "auth/opened_tokens.h"

#include <utility>

namespace verbena::auth {

AccessKeyPtr OpenedTokens::find(uint64_t store, uint64_t generation, std::string_view token) {
  if (store != store_ || generation != generation_) return nullptr;
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return nullptr;
  const Place& place = found->second;
  if (place.at != place.list->begin()) place.list->splice(place.list->begin(), *place.list, place.at);
  return place.at->key;
}

void OpenedTokens::put(uint64_t store, uint64_t generation, std::string_view token, AccessKeyPtr key) {
  if (store != store_ || generation != generation_) {
    by_token_.clear();
    accounts_.clear();
    store_ = store;
    generation_ = generation;
  }
  if (by_token_.contains(token)) return;
  OfAccount& list = accounts_[key->principal->account->id];
  if (list.size() >= account_max) {
    forget_oldest(list);
  } else if (by_token_.size() >= tokens_max) {
    const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
    forget_oldest(std::ranges::max_element(accounts_, fewer)->second);
  }
  list.push_front({std::string(token), std::move(key)});
  by_token_.emplace(list.front().token, Place{&list, list.begin()});
  if (accounts_.size() > tokens_max) std::erase_if(accounts_, [](const auto& one) { return one.second.empty(); });
}

void OpenedTokens::forget_oldest(OfAccount& list) {
  by_token_.erase(list.back().token);
  list.pop_back();
}

}  // namespace verbena::auth
