#include "sign_in/attempts.h"

#include <algorithm>

namespace verbena::sign_in {

bool Attempts::take(const std::string& name) {
  const int64_t now_s = clock_.now_s();
  const std::lock_guard lock(mutex_);
  auto found = forgiven_at_s_.find(name);
  if (found == forgiven_at_s_.end()) {
    make_room(now_s);
    found = forgiven_at_s_.emplace(name, now_s).first;
  }
  const int64_t from_s = std::max(found->second, now_s);
  if (from_s - now_s > (limits_.tries_max - 1) * limits_.forgiven_s) return false;
  found->second = from_s + limits_.forgiven_s;
  return true;
}

void Attempts::give_back(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = forgiven_at_s_.find(name);
  if (found != forgiven_at_s_.end()) found->second -= limits_.forgiven_s;
}

void Attempts::make_room(int64_t now_s) {
  if (forgiven_at_s_.size() < limits_.entries_max) return;
  std::erase_if(forgiven_at_s_, [now_s](const auto& entry) { return entry.second <= now_s; });
  if (forgiven_at_s_.size() < limits_.entries_max) return;
  const auto sooner = [](const auto& a, const auto& b) { return a.second < b.second; };
  forgiven_at_s_.erase(std::min_element(forgiven_at_s_.begin(), forgiven_at_s_.end(), sooner));
}

}  // namespace verbena::sign_in
