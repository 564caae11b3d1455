// A bucket's lifecycle as the oracle reads it, without the server's code: which rules were in force when, and what they
// allow or demand.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace verbena::simulator {

struct Rule {
  std::string prefix;
  uint32_t tag = 0;  // the object has it; 0: no condition
  uint64_t size_above = 0, size_below = UINT64_MAX;
  // Actions; 0 or nullopt: not one of the rule's.
  int64_t days = 0;
  std::optional<int64_t> date_s{};
  bool lone_markers = false;
  int64_t noncurrent_days = 0;
  size_t noncurrent_keep = 0;
  int64_t abort_days = 0;

  std::string xml() const;
};

// What a rule looks at.
struct Facts {
  const std::string& key;
  uint64_t size = 0;  // of a delete marker 0
  uint32_t tag = 0;   // 0: none
};

class RuleBook {
 public:
  explicit RuleBook(int64_t day_ns) : day_ns_(day_ns) {}

  static std::vector<Rule> draw(bool versioned);
  static std::string xml(const std::vector<Rule>& rules);

  // The call that sets them begins: they may be in force, and so may those of before.
  void begin(std::vector<Rule> rules, int64_t now_ns);
  void done(int64_t now_ns);  // it was answered with success: they alone are
  const std::vector<Rule>& last() const { return sets_.back().rules; }

  // Whether a rule may have removed it by then. `since_ns`: it is not older; gets the earliest time of the removal.
  bool may_expire(const Facts& facts, int64_t& since_ns, int64_t now_ns) const;
  // `since_ns`: not noncurrent before; `newer`: at most so many noncurrent versions are newer.
  bool may_remove_noncurrent(const Facts& facts, int64_t since_ns, size_t newer, int64_t now_ns) const;
  // A delete marker that is alone.
  bool may_remove_marker(const Facts& facts, int64_t since_ns, int64_t now_ns) const;
  bool may_abort(const Facts& facts, int64_t since_ns, int64_t now_ns) const;

  // Whether the rules that are in force demand that it has gone by then.
  bool must_expire(const Facts& facts, int64_t since_ns, int64_t now_ns) const;
  bool must_remove_noncurrent(const Facts& facts, int64_t since_ns, size_t newer, int64_t now_ns) const;
  bool must_remove_marker(const Facts& facts, int64_t since_ns, int64_t now_ns) const;
  bool must_abort(const Facts& facts, int64_t since_ns, int64_t now_ns) const;

 private:
  struct Set {
    std::vector<Rule> rules;
    int64_t from_ns, to_ns;  // at most in force so long; the clock may have gone back since
    bool only_days;          // no date, and no removal at once
  };
  // `only_days`: of its actions only those count that are due some days after `since_ns`.
  template <class Due>
  std::optional<int64_t> earliest(bool only_days, int64_t since_ns, int64_t now_ns, const Due& due) const;

  const int64_t day_ns_;
  std::deque<Set> sets_{{{}, INT64_MIN, INT64_MAX, true}};
};

}  // namespace verbena::simulator
