// What a bucket may hold, and what an operation makes of it: the promise of each verb, without the store's code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/rules.h"
#include "simulator/values.h"

namespace verbena::simulator {

enum class Lock : uint8_t { none, governance, compliance };

struct Version {
  uint32_t value = 0;    // names it, as no other version of its key; 0: a delete marker that a rule has made
  uint32_t content = 0;  // the value whose bytes it has; 0: a delete marker
  int64_t asked_ns = 0;  // the call that made it: it is not older
  uint32_t tag = 0;      // 0: none
  bool hold = false;
  Lock lock = Lock::none;
  int64_t locked_until_ns = 0;
  bool may_be_gone = false;  // by a rule, since it was last seen
  bool may_be = false;       // a marker that a rule may have made
  auto operator<=>(const Version&) const = default;
};
// Of a key, oldest first; without versioning at most one. In a directory bucket: the values that were appended.
using Versions = std::vector<Version>;
using State = std::vector<Versions>;  // by key

enum class BucketKind : uint8_t { plain, versioned, directory };

struct Operation {
  enum class Kind : uint8_t {
    put,
    append,
    remove,
    remove_version,
    rename,
    read,
    read_tag,
    list,
    read_versions,
    set_tag,
    set_hold,
    set_lock,
    read_version,
    never,  // that version is not there, and never was
  };
  // Of a read that was refused: what its object is then, none of which is `expected`, is larger or smaller than that
  // (smaller: not larger), or lacks a part of that number.
  enum class If : uint8_t { always, absent, matches, size, larger, smaller, lacks_part };
  enum class Outcome : uint8_t { done, refused, missing };

  Kind kind = Kind::read;
  uint32_t key = 0;
  uint32_t to = 0;       // of a rename: the new name
  uint32_t value = 0;    // that it brings, or of the version that it names; 0: the current object
  uint32_t content = 0;  // of what a put brings
  If condition = If::always;
  uint64_t expected = 0;  // what it needs: a content, a size, or a part's number
  Version with{};         // of a put: tag and lock; of a change: the new ones
  bool bypass = false;    // of governance

  Outcome outcome = Outcome::done;
  // What was seen of each key, of a read of its one: contents oldest first, or the current one. A listing of a
  // directory bucket: sizes.
  static constexpr uint32_t something = UINT32_MAX, not_looked_at = UINT32_MAX - 1;
  std::vector<std::vector<uint32_t>> seen{};
  std::optional<Version> seen_with{};        // what was told of tag and locks
  uint64_t begin = 0, end = UINT64_MAX;      // in the order of all calls and answers; UINT64_MAX: no answer
  int64_t begin_ns = 0, end_ns = INT64_MAX;  // of the wall clock: not earlier, not later, answered or not
  int64_t called_ns = 0;                     // of the steady clock
  bool unsure = false;                       // the answer does not say whether it has happened; it does not after `end`
  bool answered() const { return end != UINT64_MAX && !unsure; }
};

class Model {
 public:
  Model(BucketKind kind, std::vector<std::string> keys, const Values& values, const RuleBook& rules)
      : kind_(kind), keys_(std::move(keys)), values_(values), rules_(rules) {}

  size_t keys() const { return keys_.size(); }
  const std::string& key(size_t at) const { return keys_[at]; }
  bool has_key(const std::string& name) const { return std::ranges::find(keys_, name) != keys_.end(); }
  // Whether the operation may have had its answer in that state, which then is the one that it leaves.
  bool apply(const Operation& operation, State& state) const;

 private:
  using Kind = Operation::Kind;
  using Outcome = Operation::Outcome;

  // Notes what the rules may have done to the key by then.
  void prepare(size_t key, Versions& versions, int64_t now_ns) const;
  bool may_be_gone(size_t key, const Versions& versions, size_t at, int64_t now_ns) const;
  Facts facts(size_t key, const Version& version) const;

  bool put(const Operation& operation, Versions& versions) const;
  bool append(const Operation& operation, Versions& versions) const;
  bool remove(const Operation& operation, Versions& versions) const;
  bool remove_if(const Operation& operation, Versions& versions) const;
  bool remove_version(const Operation& operation, Versions& versions) const;
  bool rename(const Operation& operation, State& state) const;
  bool change(const Operation& operation, Versions& versions) const;
  bool read(const Operation& operation, Versions& versions) const;
  bool read_refused(const Operation& operation, const Versions& versions) const;
  bool read_tag(const Operation& operation, Versions& versions) const;
  bool read_version(const Operation& operation, Versions& versions) const;
  // Whether the key may have that object, and none where it is empty; it has it from then on.
  bool sees(Versions& versions, const std::vector<uint32_t>& seen) const;
  bool sees_listed(const Operation& operation, Versions& versions, const std::vector<uint32_t>& seen) const;
  bool sees_versions(Versions& versions, const std::vector<uint32_t>& seen) const;
  Versions seen_of(const Versions& versions, const std::vector<char>& seen) const;
  bool meets(const Operation& operation, Versions& versions, bool& met) const;
  uint64_t size(const Versions& versions) const;
  void add(Versions& versions, Version version) const;

  const BucketKind kind_;
  const std::vector<std::string> keys_;
  const Values& values_;
  const RuleBook& rules_;
};

}  // namespace verbena::simulator
