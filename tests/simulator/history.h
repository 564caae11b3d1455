// The oracle of one bucket: what its keys may hold after operations that overlapped.
//
// Operations of a bucket between two moments at which none is under way are one segment. The states that a segment may
// begin with are known; the states that it may end with are those that some order of its operations leads to: an order
// that keeps each operation between its call and its answer and explains every answer (linearizability, Wing and Gong
// 1993). So a page of a listing is one moment of all keys. An operation without an answer may have been carried out or
// not. No state left: the store has lied.
#pragma once

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <unordered_set>

#include "simulator/model.h"

namespace verbena::simulator {

class History {
 public:
  History(std::string name, Model model)
      : name_(std::move(name)), model_(std::move(model)), states_{State(model_.keys())} {}

  const Model& model() const { return model_; }
  // Whether an operation more keeps the segment small enough.
  bool has_room() const {
    const auto open = std::ranges::count_if(segment_, [](const Operation& one) { return !one.answered(); });
    return segment_.size() < operations_max && open < unanswered_max;
  }
  Operation& begin(Operation operation);  // stays until the segment is judged
  // `end` is set, unless the answer was an error that promises nothing. False: no order explains the segment; why()
  // tells it.
  bool end() { return --under_way_ != 0 || judge(); }
  // Whether some other change of its key is as late, or later.
  bool is_overtaken(const Operation& operation) const;
  bool crash(int64_t now_ns);  // what is under way gets no answer
  void clock_went_back(int64_t by_ns);
  std::string why() const;

 private:
  static constexpr size_t operations_max = 24;
  static constexpr ptrdiff_t unanswered_max = 8;  // each may be at any place, or none
  struct Hash {
    size_t operator()(const std::pair<uint64_t, State>& of) const;
  };
  using Seen = std::unordered_set<std::pair<uint64_t, State>, Hash>;

  bool judge();
  void explore(uint64_t done, const State& state, Seen& seen, std::set<State>& ends) const;
  bool may_be_next(uint64_t done, size_t index) const;

  const std::string name_;
  const Model model_;
  std::deque<Operation> segment_;
  size_t under_way_ = 0;
  std::set<State> states_;
  std::deque<Operation> before_;  // the last of earlier segments, for why()
};

}  // namespace verbena::simulator
