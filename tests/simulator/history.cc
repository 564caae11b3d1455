#include "simulator/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>

namespace verbena::simulator {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns % 1'000'000'000'000'000) / 1e9; }

// Its tag and locks.
std::string told(const Version& with) {
  std::string text;
  if (with.tag != 0) text += fmt::format(" tag {}", with.tag);
  if (with.hold) text += " hold";
  if (with.lock == Lock::none) return text;
  return text + fmt::format(" {} until {:.6f}", with.lock == Lock::governance ? "governance" : "compliance",
                            seconds(with.locked_until_ns));
}

std::string told(const Operation& operation, const Model& model) {
  constexpr const char* kinds[] = {"put",      "append",   "delete",       "delete version", "rename",
                                   "read",     "read tag", "list",         "list versions",  "set tag",
                                   "set hold", "set lock", "read version", "never was"};
  constexpr const char* conditions[] = {
      "", " if absent", " if it is", " if its size is", " that is larger than", " that ends by", " that lacks part"};
  constexpr const char* outcomes[] = {"done", "refused", "missing"};
  std::string text =
      fmt::format("  {:>7}..{:<20} {:.6f}..{:.6f} s  {}", operation.begin, operation.end, seconds(operation.begin_ns),
                  seconds(operation.end_ns), kinds[static_cast<size_t>(operation.kind)]);
  using Kind = Operation::Kind;
  if (operation.kind != Kind::list && operation.kind != Kind::read_versions) text += " " + model.key(operation.key);
  if (operation.kind == Kind::rename) text += " to " + model.key(operation.to);
  if (operation.value != 0) text += fmt::format(" {}", operation.value);
  if (operation.content != operation.value) text += fmt::format(" (bytes of {})", operation.content);
  text += conditions[static_cast<size_t>(operation.condition)];
  if (operation.expected != 0) text += fmt::format(" {}", operation.expected);
  text += told(operation.with);
  if (operation.bypass) text += " bypass";
  if (!operation.seen.empty()) text += fmt::format(" -> {}", operation.seen);
  if (operation.seen_with) text += " with" + told(*operation.seen_with);
  return text + " " +
         (operation.unsure       ? "unsure"
          : operation.answered() ? outcomes[static_cast<size_t>(operation.outcome)]
                                 : "no answer") +
         "\n";
}

std::string told(const State& state, const Model& model) {
  std::string text = " ";
  for (size_t key = 0; key < state.size(); ++key) {
    text += fmt::format(" {} [", model.key(key));
    for (const Version& version : state[key]) {
      text += fmt::format(" {}", version.value);
      if (version.content != version.value) text += fmt::format("({})", version.content);
      if (version.tag != 0) text += fmt::format("t{}", version.tag);
      if (version.hold) text += "h";
      if (version.lock != Lock::none) text += fmt::format("l{:.6f}", seconds(version.locked_until_ns));
      if (version.may_be || version.may_be_gone) text += "?";
    }
    text += " ]";
  }
  return text + "\n";
}

constexpr size_t seen_max = 1'000'000;  // a few hundred bytes each

// No lie was found, but none is ruled out: the world ends.
[[noreturn]] void give_up(const std::string& bucket) {
  std::printf("bucket %s: its operations have too many orders to try\n", bucket.c_str());
  std::fflush(stdout);
  _exit(4);
}

}  // namespace

Operation& History::begin(Operation operation) {
  ++under_way_;
  return segment_.emplace_back(std::move(operation));
}

bool History::is_overtaken(const Operation& operation) const {
  using Kind = Operation::Kind;
  return std::ranges::any_of(segment_, [&](const Operation& other) {
    const bool changes = other.kind <= Kind::rename || other.kind == Kind::set_tag;
    return &other != &operation && changes && other.key == operation.key && other.end > operation.begin;
  });
}

bool History::crash(int64_t now_ns) {
  under_way_ = 0;
  for (Operation& operation : segment_) operation.end_ns = std::min(operation.end_ns, now_ns);
  return judge();
}

void History::clock_went_back(int64_t by_ns) {
  for (Operation& operation : segment_) {
    if (!operation.answered()) operation.begin_ns -= by_ns;
  }
}

bool History::judge() {
  Seen seen;
  std::set<State> ends;
  for (const State& state : states_) explore(0, state, seen, ends);
  if (ends.empty()) return false;
  states_ = std::move(ends);
  for (Operation& operation : segment_) before_.push_back(std::move(operation));
  while (before_.size() > 60) before_.pop_front();
  segment_.clear();
  return true;
}

size_t History::Hash::operator()(const std::pair<uint64_t, State>& of) const {
  uint64_t hash = of.first;
  const auto mix = [&hash](uint64_t more) {
    hash = (hash ^ more) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const Versions& versions : of.second) {
    mix(versions.size());
    for (const Version& version : versions) {
      mix(uint64_t{version.value} << 8 ^ static_cast<uint64_t>(version.may_be_gone) << 1 ^
          static_cast<uint64_t>(version.may_be));
      mix(static_cast<uint64_t>(version.asked_ns));
    }
  }
  return hash;
}

void History::explore(uint64_t done, const State& state, Seen& seen, std::set<State>& ends) const {
  if (!seen.emplace(done, state).second) return;
  if (seen.size() > seen_max) give_up(name_);
  bool all = true;
  for (size_t i = 0; i < segment_.size(); ++i) {
    if ((done >> i & 1) != 0) continue;
    all = all && !segment_[i].answered();
    if (!may_be_next(done, i)) continue;
    State next = state;
    if (model_.apply(segment_[i], next)) explore(done | uint64_t{1} << i, next, seen, ends);
  }
  if (all) ends.insert(state);
}

bool History::may_be_next(uint64_t done, size_t index) const {
  const Operation& next = segment_[index];
  for (size_t i = 0; i < segment_.size(); ++i) {
    const Operation& other = segment_[i];
    const bool is_done = (done >> i & 1) != 0;
    if (!is_done && !other.unsure && other.end < next.begin) return false;
    if (is_done && next.unsure && next.end < other.begin) return false;
  }
  return true;
}

std::string History::why() const {
  std::string text = fmt::format("bucket {}: no order of its operations explains the answers\n", name_);
  for (const Operation& operation : before_) text += told(operation, model_);
  text += " the segment, which may begin with:\n";
  for (const State& state : states_) text += told(state, model_);
  for (const Operation& operation : segment_) text += told(operation, model_);
  return text;
}

}  // namespace verbena::simulator
