#include "simulator/model.h"

#include <algorithm>

namespace verbena::simulator {
namespace {

bool is_marker(const Version& version) { return version.content == 0; }

bool is_locked(const Version& version, int64_t at_ns) {
  return version.hold || (version.lock != Lock::none && at_ns < version.locked_until_ns);
}

bool told_alike(const Version& version, const Version& seen) {
  return version.tag == seen.tag && version.hold == seen.hold && version.lock == seen.lock &&
         (version.lock == Lock::none || version.locked_until_ns == seen.locked_until_ns);
}

bool is_unsure(const Version& newest) { return newest.may_be || newest.may_be_gone; }

// Whether the key's current object may be such a one; 0: none. What may be gone, or may never have been, is passed
// over.
template <class Wanted>
bool may_have(const Versions& versions, const Wanted& wanted) {
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    if (wanted(version->content)) return true;
    if (!is_unsure(*version)) return false;
  }
  return wanted(0);
}

// The current object is hidden. Of markers that may be there one is, where nothing else explains it.
void settle_marked(Versions& versions) {
  auto below = versions.rbegin();
  while (below != versions.rend() && below->may_be) ++below;
  if (below == versions.rend() || is_marker(*below) || below->may_be_gone) return;
  std::prev(below)->may_be = false;
}

bool may_have_content(const Versions& versions, uint64_t content) {
  return may_have(versions, [&](uint32_t is) { return is == content; });
}

Versions::iterator find_named(Versions& versions, uint32_t value) {
  return std::ranges::find(versions, value, &Version::value);
}

}  // namespace

Facts Model::facts(size_t key, const Version& version) const {
  return {.key = keys_[key], .size = is_marker(version) ? 0 : values_.size(version.content), .tag = version.tag};
}

bool Model::may_be_gone(size_t key, const Versions& versions, size_t at, int64_t now_ns) const {
  const Version& version = versions[at];
  if (is_locked(version, now_ns)) return false;
  if (at + 1 < versions.size()) {
    const size_t newer = versions.size() - 2 - at;
    // Noncurrent since the next newer one, whichever of those that may be gone that is: after a crash and a clock that
    // went back a newer one may have an earlier time.
    int64_t since_ns = versions[at + 1].asked_ns;
    for (size_t next = at + 1; next + 1 < versions.size() && is_unsure(versions[next]); ++next) {
      since_ns = std::min(since_ns, versions[next + 1].asked_ns);
    }
    if (rules_.may_remove_noncurrent(facts(key, version), since_ns, newer, now_ns)) return true;
  }
  // Alone, if what is below it has gone, and what is above it has, too, or never was.
  const auto here = versions.begin() + static_cast<ptrdiff_t>(at);
  return is_marker(version) && std::all_of(versions.begin(), here, is_unsure) &&
         std::all_of(here + 1, versions.end(), is_unsure) &&
         rules_.may_remove_marker(facts(key, version), version.asked_ns, now_ns);
}

void Model::prepare(size_t key, Versions& versions, int64_t now_ns) const {
  if (versions.empty() || kind_ == BucketKind::directory) return;
  int64_t since_ns = versions.back().asked_ns;
  if (!is_marker(versions.back()) && rules_.may_expire(facts(key, versions.back()), since_ns, now_ns)) {
    if (kind_ == BucketKind::versioned) {
      versions.push_back({.asked_ns = since_ns, .may_be = true});
    } else {
      versions.back().may_be_gone = true;
    }
  }
  if (kind_ != BucketKind::versioned) return;
  // From the newest, since what is above may be gone; then from the oldest, since a marker may be left alone.
  const auto look = [&](size_t at) {
    if (!versions[at].may_be_gone) versions[at].may_be_gone = may_be_gone(key, versions, at, now_ns);
  };
  for (size_t at = versions.size(); at-- > 0;) look(at);
  for (size_t at = 0; at < versions.size(); ++at) look(at);
}

void Model::add(Versions& versions, Version version) const {
  if (kind_ != BucketKind::versioned) versions.clear();
  versions.push_back(version);
}

bool Model::apply(const Operation& operation, State& state) const {
  if (operation.kind == Kind::list || operation.kind == Kind::read_versions) {
    if (!operation.answered()) return true;
    for (size_t key = 0; key < state.size(); ++key) {
      if (operation.seen[key] == std::vector{Operation::not_looked_at}) continue;
      prepare(key, state[key], operation.end_ns);
      if (!sees_listed(operation, state[key], operation.seen[key])) return false;
    }
    return true;
  }
  Versions& versions = state[operation.key];
  prepare(operation.key, versions, operation.end_ns);
  switch (operation.kind) {
    case Kind::put:
      return put(operation, versions);
    case Kind::append:
      return append(operation, versions);
    case Kind::remove:
      return remove(operation, versions);
    case Kind::remove_version:
      return remove_version(operation, versions);
    case Kind::rename:
      return rename(operation, state);
    case Kind::set_tag:
    case Kind::set_hold:
    case Kind::set_lock:
      return change(operation, versions);
    case Kind::read_version:
      return read_version(operation, versions);
    case Kind::never:
      return find_named(versions, operation.value) == versions.end();
    case Kind::read:
      return read(operation, versions);
    case Kind::read_tag:
      return read_tag(operation, versions);
    case Kind::list:
    case Kind::read_versions:
      break;
  }
  return false;
}

bool Model::read(const Operation& operation, Versions& versions) const {
  if (!operation.answered()) return true;
  if (operation.outcome == Outcome::refused) return read_refused(operation, versions);
  if (!sees(versions, operation.seen[0])) return false;
  return !operation.seen_with || versions.empty() || told_alike(versions.back(), *operation.seen_with);
}

// A copy's source was another one, or none; a place too small, a range behind the end, a part that is not there.
bool Model::read_refused(const Operation& operation, const Versions& versions) const {
  const uint64_t expected = operation.expected;
  const bool directory = kind_ == BucketKind::directory;
  const auto size_of = [&](uint32_t is) { return directory ? size(versions) : values_.size(is); };
  return may_have(versions, [&](uint32_t is) {
    switch (operation.condition) {
      case Operation::If::larger:
        return is != 0 && size_of(is) > expected;
      case Operation::If::smaller:
        return is != 0 && size_of(is) <= expected;
      case Operation::If::lacks_part:
        return is != 0 && values_.may_lack(is, static_cast<int>(expected));
      default:
        return is != expected;
    }
  });
}

bool Model::read_tag(const Operation& operation, Versions& versions) const {
  if (!operation.answered()) return true;
  if (operation.outcome == Outcome::missing) return sees(versions, {});
  while (!versions.empty() && (is_marker(versions.back()) || versions.back().tag != operation.seen_with->tag)) {
    if (!is_unsure(versions.back())) return false;
    versions.pop_back();
  }
  if (versions.empty()) return false;
  versions.back().may_be_gone = false;
  return true;
}

// `met`: whether its condition holds. False: the answer is another one than the condition allows.
bool Model::meets(const Operation& operation, Versions& versions, bool& met) const {
  const bool told = operation.answered(), done = operation.outcome == Outcome::done;
  switch (operation.condition) {
    case Operation::If::always:
      met = true;
      return !told || done;
    case Operation::If::absent:
      met = told ? done : may_have_content(versions, 0);
      if (!told) return true;
      return done ? sees(versions, {})
                  : operation.outcome == Outcome::refused && may_have(versions, [](uint32_t is) { return is != 0; });
    case Operation::If::matches:
      met = told ? done : may_have_content(versions, operation.expected);
      if (!told) return true;
      if (done) return sees(versions, {static_cast<uint32_t>(operation.expected)});
      if (operation.outcome == Outcome::missing) return sees(versions, {});
      return may_have(versions, [&](uint32_t is) { return is != 0 && is != operation.expected; });
    case Operation::If::size:
      met = size(versions) == operation.expected;
      return !told || met == done;
    default:  // of reads
      return false;
  }
}

bool Model::put(const Operation& operation, Versions& versions) const {
  bool met = false;
  if (!meets(operation, versions, met)) return false;
  if (!met) return true;
  Version version = operation.with;
  version.value = operation.value;
  version.content = operation.content;
  version.asked_ns = operation.begin_ns;
  add(versions, version);
  return true;
}

uint64_t Model::size(const Versions& versions) const {
  uint64_t size = 0;
  for (const Version& version : versions) size += values_.size(version.content);
  return size;
}

bool Model::append(const Operation& operation, Versions& versions) const {
  bool met = false;
  if (!meets(operation, versions, met)) return false;
  if (met) versions.push_back({.value = operation.value, .content = operation.content});
  return true;
}

bool Model::remove(const Operation& operation, Versions& versions) const {
  if (operation.condition == Operation::If::matches) return remove_if(operation, versions);
  if (operation.answered() && operation.outcome != Outcome::done) return false;
  if (kind_ == BucketKind::versioned) {
    add(versions, {.value = operation.value, .asked_ns = operation.begin_ns});
  } else {
    versions.clear();
  }
  return true;
}

// A missing object meets any condition, and gets no marker; a marker is none (S3).
bool Model::remove_if(const Operation& operation, Versions& versions) const {
  const auto expected = static_cast<uint32_t>(operation.expected);
  const bool told = operation.answered(), versioned = kind_ == BucketKind::versioned;
  if (told && operation.outcome == Outcome::refused) {
    return may_have(versions, [&](uint32_t is) { return is != expected && (versioned || is != 0); });
  }
  if (told && versioned && operation.value == 0) {  // it made no marker
    if (!std::ranges::all_of(versions, is_unsure)) return false;
    versions.clear();
    return true;
  }
  const bool met = may_have_content(versions, expected) || (!versioned && may_have_content(versions, 0));
  if (!met) return !told;
  if (!versioned) {
    versions.clear();
    return true;
  }
  if (told && !sees(versions, {expected})) return false;
  add(versions, {.value = operation.value, .asked_ns = operation.begin_ns});
  return true;
}

// A locked version stays. One that has gone already is removed with success (S3).
bool Model::remove_version(const Operation& operation, Versions& versions) const {
  const auto version = find_named(versions, operation.value);
  const bool told = operation.answered(), refused = operation.outcome == Outcome::refused;
  if (version == versions.end()) return !told || !refused;
  const bool passes = operation.bypass && version->lock == Lock::governance && !version->hold;
  const bool locked_before = is_locked(*version, operation.begin_ns) && !passes;
  const bool locked_after = is_locked(*version, operation.end_ns) && !passes;
  if (told && refused) {
    if (locked_before) version->may_be_gone = false;
    return locked_before;
  }
  if (locked_after) return !told;  // without an answer: it was refused
  versions.erase(version);
  return true;
}

bool Model::rename(const Operation& operation, State& state) const {
  Versions& from = state[operation.key];
  Versions& to = state[operation.to];
  const bool told = operation.answered();
  if (from.empty()) return !told || operation.outcome == Outcome::missing;
  const bool free = operation.condition != Operation::If::absent || to.empty();
  if (told && operation.outcome == Outcome::missing) return false;
  if (told && (operation.outcome == Outcome::done) != free) return false;
  if (!free || operation.key == operation.to) return true;
  to = std::move(from);
  from.clear();
  return true;
}

// Of the named version, or without versioning of the current object.
bool Model::change(const Operation& operation, Versions& versions) const {
  const auto version = operation.value == 0 ? (versions.empty() ? versions.end() : versions.end() - 1)
                                            : find_named(versions, operation.value);
  const bool told = operation.answered();
  const bool there = version != versions.end() && !is_marker(*version);
  if (told && operation.outcome == Outcome::missing) {
    if (!there) return true;
    if (!version->may_be_gone) return false;
    versions.erase(version);
    return true;
  }
  if (!there) return !told;
  if (operation.kind == Kind::set_lock) {
    const bool shortens = version->lock != Lock::none && (operation.with.lock != version->lock ||
                                                          operation.with.locked_until_ns < version->locked_until_ns);
    const bool passes = version->lock == Lock::governance && operation.bypass;
    const bool locked_before = shortens && !passes && operation.begin_ns < version->locked_until_ns;
    const bool locked_after = shortens && !passes && operation.end_ns < version->locked_until_ns;
    if (told && operation.outcome == Outcome::refused) return locked_before;
    if (locked_after) return !told;
    version->lock = operation.with.lock;
    version->locked_until_ns = operation.with.locked_until_ns;
  }
  if (operation.kind == Kind::set_tag) version->tag = operation.with.tag;
  if (operation.kind == Kind::set_hold) version->hold = operation.with.hold;
  if (told) version->may_be_gone = false;
  return true;
}

bool Model::read_version(const Operation& operation, Versions& versions) const {
  if (!operation.answered()) return true;
  const auto version = find_named(versions, operation.value);
  if (operation.outcome == Outcome::missing) {
    if (version == versions.end()) return true;
    if (!version->may_be_gone) return false;
    versions.erase(version);
    return true;
  }
  if (version == versions.end()) return false;
  if (operation.seen_with && !told_alike(*version, *operation.seen_with)) return false;
  version->may_be_gone = false;
  return (operation.seen[0].empty() ? 0 : operation.seen[0][0]) == version->content;
}

// A listing of a directory bucket tells of each object its size.
bool Model::sees_listed(const Operation& operation, Versions& versions, const std::vector<uint32_t>& seen) const {
  if (operation.kind == Kind::read_versions) return sees_versions(versions, seen);
  if (seen == std::vector{Operation::something}) return may_have(versions, [](uint32_t is) { return is != 0; });
  if (kind_ != BucketKind::directory) return sees(versions, seen);
  return seen.empty() ? versions.empty() : !versions.empty() && size(versions) == seen[0];
}

bool Model::sees(Versions& versions, const std::vector<uint32_t>& seen) const {
  if (kind_ == BucketKind::directory) {
    return std::ranges::equal(versions, seen, {}, &Version::content);
  }
  const uint32_t content = seen.empty() ? 0 : seen[0];
  while (!versions.empty() && versions.back().content != content) {
    if (!is_unsure(versions.back())) return false;
    versions.pop_back();
  }
  if (versions.empty()) return content == 0;
  if (content == 0) {
    settle_marked(versions);
  } else {
    versions.back().may_be_gone = false;
  }
  return true;
}

constexpr char unclear = 2;  // of a version: it was seen, or another one with the same bytes

bool Model::sees_versions(Versions& versions, const std::vector<uint32_t>& seen) const {
  const size_t there = versions.size(), count = seen.size();
  // Whether the oldest versions, so many, explain the oldest that were seen, so many.
  std::vector<char> explained((there + 1) * (count + 1));
  const auto at = [&](size_t of, size_t n) -> char& { return explained[of * (count + 1) + n]; };
  const auto matches = [&](size_t of, size_t n) {
    return n > 0 && seen[n - 1] == versions[of - 1].content && at(of - 1, n - 1) != 0;
  };
  at(0, 0) = 1;
  for (size_t of = 1; of <= there; ++of) {
    for (size_t n = 0; n <= std::min(of, count); ++n) {
      at(of, n) = matches(of, n) || (is_unsure(versions[of - 1]) && at(of - 1, n) != 0);
    }
  }
  if (count > there || at(there, count) == 0) return false;
  // The same of the newest ones: what is behind [of, n).
  std::vector<char> rest((there + 1) * (count + 1));
  const auto behind = [&](size_t of, size_t n) -> char& { return rest[of * (count + 1) + n]; };
  behind(there, count) = 1;
  for (size_t of = there; of-- > 0;) {
    for (size_t n = 0; n <= count; ++n) {
      const bool seen_here = n < count && seen[n] == versions[of].content && behind(of + 1, n + 1) != 0;
      behind(of, n) = seen_here || (is_unsure(versions[of]) && behind(of + 1, n) != 0);
    }
  }
  std::vector<char> seen_there(there);
  for (size_t of = there, n = count; of > 0; --of) {
    seen_there[of - 1] = matches(of, n) ? 1 : 0;
    if (seen_there[of - 1] != 0) --n;
  }
  // Two versions may have the same bytes: of a copy onto its own key. Which of them was seen nothing tells.
  for (size_t of = 0; of < there; ++of) {
    if (is_marker(versions[of]) || !is_unsure(versions[of])) continue;
    bool may_be_it = false, may_be_another = false;
    for (size_t n = 0; n <= count; ++n) {
      if (at(of, n) == 0) continue;
      may_be_it = may_be_it || (n < count && seen[n] == versions[of].content && behind(of + 1, n + 1) != 0);
      may_be_another = may_be_another || behind(of + 1, n) != 0;
    }
    if (may_be_it && may_be_another) seen_there[of] = unclear;
  }
  versions = seen_of(versions, seen_there);
  return true;
}

// Markers look alike: of those between two objects that were seen nothing tells which, unless all were, or none.
Versions Model::seen_of(const Versions& versions, const std::vector<char>& seen) const {
  Versions left;
  const auto keep = [&](const Version& version) {
    left.push_back(version);
    left.back().may_be_gone = left.back().may_be = false;
  };
  for (size_t at = 0; at < versions.size();) {
    if (!is_marker(versions[at])) {
      if (seen[at] == unclear) {
        left.push_back(versions[at]);
      } else if (seen[at] != 0) {
        keep(versions[at]);
      }
      ++at;
      continue;
    }
    Versions run;
    size_t count = 0, sure = 0;
    for (; at < versions.size() && (is_marker(versions[at]) || seen[at] == 0); ++at) {
      if (!is_marker(versions[at])) continue;
      run.push_back(versions[at]);
      count += seen[at] != 0 ? 1 : 0;
      sure += is_unsure(versions[at]) ? 0 : 1;
    }
    for (const Version& marker : run) {
      if (count == run.size() || !is_unsure(marker)) {
        keep(marker);
      } else if (sure < count) {
        left.push_back(marker);
      }
    }
  }
  return left;
}

}  // namespace verbena::simulator
