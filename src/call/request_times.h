// Durations of requests by door, verb and size: verbena_request_duration_seconds. Called by the doors when the answer
// was sent.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/histogram.h"
#include "call/call.h"

namespace verbena::call {

enum class Verb : uint8_t { get, put, head, append, remove, list, read_batch, write_batch, other };

class RequestTimes {
 public:
  explicit RequestTimes(Door door);

  // `bytes`: payload bytes of the object that moved.
  void note(Verb verb, uint64_t bytes, uint64_t ns, std::string_view request_id) const {
    const size_t v = static_cast<size_t>(verb);
    metrics::Histogram* const histogram = v < sized ? by_size_[v][size_class(bytes)] : of_verb_[v - sized];
    histogram->observe_ns(ns, request_id);
  }

  // 0: at most 4 KiB, 1: 64 KiB, 2: 1 MiB, 3: 16 MiB, 4: more.
  static size_t size_class(uint64_t bytes) {
    if (bytes <= 4 * KiB) return 0;
    return std::min<size_t>((std::bit_width(bytes - 1) - 9) / 4, size_classes - 1);
  }

 private:
  static constexpr size_t size_classes = 5;
  static constexpr size_t sized = 2;  // get and put; for other verbs the size has no meaning
  static constexpr size_t verbs = 9;
  std::array<std::array<metrics::Histogram*, size_classes>, sized> by_size_{};
  std::array<metrics::Histogram*, verbs - sized> of_verb_{};
};

// From an action as docs/s3.md names it: "GET object", "PUT object?uploadId".
Verb verb_of(std::string_view action);

}  // namespace verbena::call
