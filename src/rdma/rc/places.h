// A bounded number of places, in all and for each owner. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/metrics.h"
#include "base/result.h"

namespace verbena::rdma::rc {

class Places {
 public:
  Places(size_t all_max, size_t owner_max, metrics::Gauge& taken)
      : state_(std::make_shared<State>()), all_max_(all_max), owner_max_(owner_max), taken_(taken) {}

  // Given back when the last copy is gone.
  using Place = std::shared_ptr<const void>;
  // slow_down: none is free.
  Result<Place> take(const std::string& owner) { return take(owner, owner_max_); }
  Result<Place> take(const std::string& owner, size_t owner_max);

 private:
  struct State {
    std::mutex mutex;
    size_t taken = 0;
    std::map<std::string, size_t, std::less<>> by_owner;
  };
  std::shared_ptr<State> state_;
  size_t all_max_, owner_max_;
  metrics::Gauge& taken_;
};

inline Result<Places::Place> Places::take(const std::string& owner, size_t owner_max) {
  const std::lock_guard lock(state_->mutex);
  if (state_->taken >= all_max_) return fail(Errc::slow_down, "reliable connections: too many");
  size_t& own = state_->by_owner[owner];
  if (own >= owner_max) return fail(Errc::slow_down, "reliable connections: too many of this caller");
  ++own;
  ++state_->taken;
  taken_.add(1);
  return Place(state_.get(), [state = state_, owner, &gauge = taken_](const void*) {
    const std::lock_guard locked(state->mutex);
    const auto place = state->by_owner.find(owner);
    if (--place->second == 0) state->by_owner.erase(place);
    --state->taken;
    gauge.add(-1);
  });
}

}  // namespace verbena::rdma::rc
