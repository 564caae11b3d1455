// One thing that one client at a time changes while others read it: what it may be.
#pragma once

#include <list>
#include <set>
#include <utility>
#include <vector>

namespace verbena::simulator {

template <class Value>
class Register {
 public:
  Register() : Register(Value{}) {}
  explicit Register(Value first) : may_be_{first} {}

  bool busy() const { return busy_; }
  uint64_t changes() const { return changes_; }  // so many were called
  const std::set<Value>& may_be() const { return may_be_; }

  // A change is called that may make it one of these.
  void begin(const std::vector<Value>& next) {
    busy_ = true;
    ++changes_;
    before_ = may_be_;
    next_ = next;
    add(next);
  }
  // It may become more than was said.
  void add(const std::vector<Value>& next) {
    may_be_.insert(next.begin(), next.end());
    for (Seen& reading : readings_) reading.may_be.insert(next.begin(), next.end());
  }
  void done(Value now) { done_as({std::move(now)}); }
  void done_as(std::vector<Value> now) {  // one of these
    may_be_ = {now.begin(), now.end()};
    busy_ = false;
  }
  void refused() {
    may_be_ = before_;
    busy_ = false;
  }
  void remove(Value it_is_not) { may_be_.erase(it_is_not); }
  // It is that, by another way than a change; one that is under way comes before or after.
  void reset(Value now) {
    ++changes_;
    before_ = {now};
    may_be_ = {now};
    if (busy_) may_be_.insert(next_.begin(), next_.end());
    for (Seen& reading : readings_) reading.may_be.insert(now);
  }
  // No promise. Not settled: it may happen until release(), and no client changes it.
  void unknown(bool settled) { busy_ = !settled; }
  void release() { busy_ = false; }

  struct Seen {
    std::set<Value> may_be;
    uint64_t changes;
  };
  using Reading = typename std::list<Seen>::iterator;
  Reading begin_read() { return readings_.insert(readings_.end(), {may_be_, changes_}); }
  void end_read(Reading reading) { readings_.erase(reading); }
  // Ends it. False: it was nothing that fits.
  template <class Fits>
  bool end_read(Reading reading, const Fits& fits) {
    const bool still = !busy_ && reading->changes == changes_;
    const std::set<Value> all = std::move(reading->may_be);
    readings_.erase(reading);
    bool any = false;
    for (const Value& one : all) {
      if (fits(one)) {
        any = true;
      } else if (still) {
        may_be_.erase(one);
      }
    }
    return any;
  }

 private:
  std::set<Value> may_be_, before_;
  std::vector<Value> next_;
  bool busy_ = false;
  uint64_t changes_ = 0;
  std::list<Seen> readings_;
};

}  // namespace verbena::simulator
