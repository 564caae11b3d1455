// Whether anybody wants to know of every request: an access log, somebody who watches, a tracer. Where nobody does, a
// request pays for it with one load.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::observe {

namespace detail {
inline constinit std::atomic<uint32_t> observers{0};
}

inline bool requests_are_observed() { return detail::observers.load(std::memory_order_relaxed) != 0; }

// One who wants to know, for as long as it is there.
class Observing {
 public:
  Observing() { detail::observers.fetch_add(1, std::memory_order_relaxed); }
  ~Observing() { detail::observers.fetch_sub(1, std::memory_order_relaxed); }
  Observing(const Observing&) = delete;
};

}  // namespace verbena::observe
