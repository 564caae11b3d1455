// Whether any observer needs every request: an access log, a live view, a tracer. Without one a request costs a single
// load.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::observe {

namespace detail {
inline constinit std::atomic<uint32_t> observers{0};
}

inline bool requests_are_observed() { return detail::observers.load(std::memory_order_relaxed) != 0; }

// Registers an observer for its lifetime.
class Observing {
 public:
  Observing() { detail::observers.fetch_add(1, std::memory_order_relaxed); }
  ~Observing() { detail::observers.fetch_sub(1, std::memory_order_relaxed); }
  Observing(const Observing&) = delete;
};

}  // namespace verbena::observe
