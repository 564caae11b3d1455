#include "simulator/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verbena::simulator {

Operation& History::begin(Operation operation) {
  ++under_way_;
  return segment_.emplace_back(std::move(operation));
}

bool History::crash() {
  under_way_ = 0;
  return judge();
}

bool History::judge() {
  Seen seen;
  std::set<Versions> ends;
  for (const Versions& state : states_) explore(0, state, seen, ends);
  if (ends.empty()) return false;
  states_ = std::move(ends);
  for (Operation& operation : segment_) before_.push_back(std::move(operation));
  while (before_.size() > 40) before_.pop_front();
  segment_.clear();
  return true;
}

void History::explore(uint64_t done, const Versions& state, Seen& seen, std::set<Versions>& ends) const {
  if (!seen.emplace(done, state).second) return;
  bool all = true;
  for (size_t i = 0; i < segment_.size(); ++i) {
    if ((done >> i & 1) != 0) continue;
    all = all && segment_[i].end == UINT64_MAX;
    if (!may_be_next(done, i)) continue;
    for (Versions next : before(segment_[i], state)) {
      if (apply(segment_[i], next)) explore(done | uint64_t{1} << i, next, seen, ends);
    }
  }
  if (all) ends.insert(state);
}

bool History::may_be_next(uint64_t done, size_t index) const {
  for (size_t i = 0; i < segment_.size(); ++i) {
    if ((done >> i & 1) == 0 && segment_[i].end < segment_[index].begin) return false;
  }
  return true;
}

bool History::is_due(const Versions& state, size_t at, int64_t now_ns) const {
  return day_ns_ != 0 && at + 1 < state.size() && state[at + 1].asked_ns + day_ns_ <= now_ns;
}

// Versions below the one that is removed may have gone as long as it made them noncurrent: the newest first.
std::vector<Versions> History::before(const Operation& operation, const Versions& state) const {
  std::vector<Versions> states{state};
  if (operation.kind != Operation::Kind::remove_version) return states;
  size_t at = 0;
  while (at < state.size() && state[at].value != operation.value) ++at;
  if (at == state.size()) return states;
  for (Versions next = state; at > 0 && is_due(next, at - 1, operation.end_ns); --at) {
    next.erase(next.begin() + static_cast<ptrdiff_t>(at) - 1);
    states.push_back(next);
  }
  return states;
}

bool History::apply(const Operation& operation, Versions& state) const {
  using Kind = Operation::Kind;
  const bool exists = !state.empty() && state.back().value != 0;
  switch (operation.kind) {
    case Kind::put_if_absent:
      if (operation.end != UINT64_MAX && operation.refused != exists) return false;
      if (exists) return true;
      [[fallthrough]];
    case Kind::put:
      if (!versioned_) state.clear();
      state.push_back({operation.value, operation.begin_ns});
      return true;
    case Kind::remove:
      if (!versioned_) {
        state.clear();
      } else {
        state.push_back({0, operation.begin_ns});
      }
      return true;
    case Kind::remove_version:
      std::erase_if(state, [&](const Version& version) { return version.value == operation.value; });
      return true;
    case Kind::read:
    case Kind::read_versions:
      return operation.end == UINT64_MAX || explains(operation, state);
  }
  return false;
}

// What a read did not see of noncurrent versions has gone, if it was due: nothing tells when.
bool History::explains(const Operation& operation, Versions& state) const {
  if (operation.kind == Operation::Kind::read) {
    const uint32_t current = state.empty() ? 0 : state.back().value;
    return operation.seen.empty() ? current == 0 : current == operation.seen[0];
  }
  // From the newest on: of markers, which look alike, the older ones are due first.
  Versions left;
  size_t unmatched = operation.seen.size();
  for (size_t i = state.size(); i-- > 0;) {
    if (unmatched > 0 && operation.seen[unmatched - 1] == state[i].value) {
      left.insert(left.begin(), state[i]);
      --unmatched;
      continue;
    }
    if (!is_due(state, i, operation.end_ns)) return false;
  }
  if (unmatched != 0) return false;
  state = std::move(left);
  return true;
}

std::string History::why() const {
  constexpr const char* names[] = {"put", "put if absent", "delete", "delete version", "read", "read versions"};
  std::string text = fmt::format("key {}: no order of its operations explains the answers\n", name_);
  const auto tell = [&](const Operation& operation) {
    text += fmt::format("  {:>7}..{:<20} {:.6f}..{:.6f} s  {} {} -> {}{}\n", operation.begin, operation.end,
                        static_cast<double>(operation.begin_ns % 1'000'000'000'000'000) / 1e9,
                        static_cast<double>(operation.end_ns % 1'000'000'000'000'000) / 1e9,
                        names[static_cast<size_t>(operation.kind)], operation.value, operation.seen,
                        operation.end == UINT64_MAX ? " no answer"
                        : operation.refused         ? " refused"
                                                    : "");
  };
  for (const Operation& operation : before_) tell(operation);
  text += " the segment, which may begin with:\n";
  for (const Versions& state : states_) {
    text += "  [";
    for (const Version& version : state) text += fmt::format(" {}", version.value);
    text += " ]\n";
  }
  for (const Operation& operation : segment_) tell(operation);
  return text;
}

}  // namespace verbena::simulator
