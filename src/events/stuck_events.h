// Events that a target does not take, each with what waits behind it: why, since when, how often it was tried. An
// operator may let go of one.
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
  std::string bucket_name{}, key{}, happened{};  // as its record has them; the key as in a form
  bool refused = false;  // the target answers and does not take it; else it does not answer, and may be down
  std::string why{};
  uint64_t tries = 0;
  int64_t since_us = 0;
};

// What its record says of an event; nothing of one that says nothing.
void describe_record(const std::string& record, StuckEvent& into);

// How operators name one: bucket and event, hexadecimal.
std::string name_of_stuck(const StuckEvent& stuck);
std::optional<std::pair<uint64_t, uint64_t>> parse_stuck_name(std::string_view name);

// Of one target; one for each bucket at most. Thread-safe.
class StuckEvents {
 public:
  static constexpr size_t kept_max = 100;  // of further ones nothing is kept; they are tried all the same

  struct Failure {
    bool refused = false;
    std::string why{};
  };
  void failed(uint64_t bucket, const store::QueuedEvent& event, Failure failure, int64_t now_us);
  // So many are done with: events of changes that came late may be, while the one that is stuck stays so.
  void moved_on(uint64_t bucket, uint64_t up_to = UINT64_MAX);
  void clear();
  bool has(uint64_t bucket, uint64_t event) const;
  std::vector<StuckEvent> list() const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, StuckEvent> stuck_;  // by bucket
};

}  // namespace verbena::events
