// The oracle of one key: what it may hold after operations that overlapped.
//
// Operations of a key between two moments at which none is under way are one segment. The states that a segment may
// begin with are known; the states that it may end with are those that some order of its operations leads to: an order
// that keeps each operation between its call and its answer and explains every answer (linearizability, Wing and Gong
// 1993). An operation without an answer may have been carried out or not. No state left: the store has lied.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace verbena::simulator {

struct Version {
  uint32_t value = 0;    // 0: a delete marker
  int64_t asked_ns = 0;  // the call that made it: it is not older
  auto operator<=>(const Version&) const = default;
};
using Versions = std::vector<Version>;  // oldest first; without versioning at most one

struct Operation {
  enum class Kind : uint8_t { put, put_if_absent, remove, remove_version, read, read_versions };
  Kind kind = Kind::read;
  uint32_t value = 0;                        // that a put brings, that remove_version() names
  std::vector<uint32_t> seen{};              // by a read: the value, or none; by read_versions: oldest first
  bool refused = false;                      // put_if_absent found an object
  uint64_t begin = 0, end = UINT64_MAX;      // in the order of all calls and answers; UINT64_MAX: no answer
  int64_t begin_ns = 0, end_ns = INT64_MAX;  // of the wall clock
};

class History {
 public:
  // `day_ns`: noncurrent versions may go so long after they became noncurrent; 0: they stay.
  History(std::string name, bool versioned, int64_t day_ns)
      : name_(std::move(name)), versioned_(versioned), day_ns_(day_ns) {}

  // Whether an operation more keeps the segment small enough.
  bool has_room() const { return segment_.size() < operations_max; }
  Operation& begin(Operation operation);  // stays until the segment is judged
  // `end` is set, unless the answer was an error that promises nothing. False: no order explains the segment; why()
  // tells it.
  bool end() { return --under_way_ != 0 || judge(); }
  bool crash();  // what is under way gets no answer
  std::string why() const;

 private:
  static constexpr size_t operations_max = 24;
  using Seen = std::set<std::pair<uint64_t, Versions>>;

  bool judge();
  void explore(uint64_t done, const Versions& state, Seen& seen, std::set<Versions>& ends) const;
  bool may_be_next(uint64_t done, size_t index) const;
  bool is_due(const Versions& state, size_t at, int64_t now_ns) const;
  std::vector<Versions> before(const Operation& operation, const Versions& state) const;
  bool apply(const Operation& operation, Versions& state) const;
  bool explains(const Operation& operation, Versions& state) const;

  const std::string name_;
  const bool versioned_;
  const int64_t day_ns_;
  std::deque<Operation> segment_;
  size_t under_way_ = 0;
  std::set<Versions> states_{{}};
  std::deque<Operation> before_;  // the last of earlier segments, for why()
};

}  // namespace verbena::simulator
