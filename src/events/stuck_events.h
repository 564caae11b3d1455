// Events that a target does not accept, each blocking those behind it: the reason, the time, the number of tries. An
// operator may drop one.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::events {

struct StuckEvent {
  uint64_t bucket = 0, event = 0;                // ids
  std::string bucket_name{}, key{}, happened{};  // as in its record; the key encoded as in a form
  bool refused = false;  // the target answers and refuses it; else it does not answer, and may be down
  std::string why{};
  uint64_t tries = 0;
  int64_t since_us = 0;
};

// Fills in an event's data from its record; nothing if the record is not readable.
void describe_record(const std::string& record, StuckEvent& into);

// An event's name for operators: bucket and event, hexadecimal.
std::string name_of_stuck(const StuckEvent& stuck);
std::optional<std::pair<uint64_t, uint64_t>> parse_stuck_name(std::string_view name);

// Stuck events of one target; at most one per bucket. Thread-safe.
class StuckEvents {
 public:
  static constexpr size_t kept_max = 100;  // further ones are not stored; they are tried all the same

  struct Failure {
    bool refused = false;
    std::string why{};
  };
  void failed(uint64_t bucket, const store::QueuedEvent& event, Failure failure, int64_t now_us);
  // Events up to this one are delivered: late events of other changes may be, while the stuck one stays.
  void moved_on(uint64_t bucket, uint64_t up_to = UINT64_MAX);
  void clear();
  bool has(uint64_t bucket, uint64_t event) const;
  std::vector<StuckEvent> list() const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, StuckEvent> stuck_;  // by bucket
};

}  // namespace verbena::events
