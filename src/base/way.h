// Where one request's time went. The rooms that it passes fill it in when somebody wants to know: then its door has
// made one, else there is none, and nothing is read of any clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "base/ticks.h"

namespace verbena {

enum class Leg : uint8_t {
  read,    // the head or message, and who sent it
  open,    // look-up and authorization
  memory,  // waits for a part of the arena
  disk,    // waits for the store: reads, writes, the commit
  wire,    // the payload's bytes: into or out of socket, message or window
  reply,   // the answer, until it was handed over
};
inline constexpr size_t legs = 6;

// On one core's thread at a time, as its request is.
struct Way {
  struct Stay {
    uint64_t began = 0, ended = 0;  // ticks() of the first entry and the last leave; 0: never there
    uint64_t ns = 0;                // all stays together
  };
  std::array<Stay, legs> stays{};

  void add(Leg leg, uint64_t began, uint64_t ended) {
    Stay& stay = stays[static_cast<size_t>(leg)];
    if (stay.began == 0) stay.began = began;
    stay.ended = std::max(stay.ended, ended);
    stay.ns += ns_between(began, ended);
  }
  uint64_t ns(Leg leg) const { return stays[static_cast<size_t>(leg)].ns; }
};

namespace detail {
inline constinit thread_local std::unordered_map<std::string_view, Way*>* ways = nullptr;
}

// Makes the way known under its request's id, for as long as this is there: to whoever serves the request, which
// happens on this thread. `way` may be null; the id outlives this.
class WayOfRequest {
 public:
  WayOfRequest(Way* way, std::string_view request_id) {
    if (way == nullptr) return;
    static thread_local std::unordered_map<std::string_view, Way*> ways_here;
    detail::ways = &ways_here;
    if (ways_here.try_emplace(request_id, way).second) request_id_ = request_id;
  }
  ~WayOfRequest() {
    // A request that is still there when its loop goes is let go by another thread.
    if (!request_id_.empty() && detail::ways != nullptr) detail::ways->erase(request_id_);
  }
  WayOfRequest(const WayOfRequest&) = delete;

 private:
  std::string_view request_id_;
};

// null: nobody wants to know.
inline Way* way_of(std::string_view request_id) {
  if (detail::ways == nullptr || detail::ways->empty()) return nullptr;
  const auto found = detail::ways->find(request_id);
  return found == detail::ways->end() ? nullptr : found->second;
}

// A leg for as long as it is there. `way` may be null.
class OnTheWay {
 public:
  OnTheWay(Way* way, Leg leg) : way_(way), leg_(leg), began_(way == nullptr ? 0 : ticks()) {}
  ~OnTheWay() { end(); }
  OnTheWay(const OnTheWay&) = delete;
  void end() {
    if (way_ != nullptr) way_->add(leg_, began_, ticks());
    way_ = nullptr;
  }

 private:
  Way* way_;
  const Leg leg_;
  const uint64_t began_;
};

}  // namespace verbena
