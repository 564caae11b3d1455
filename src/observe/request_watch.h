// A live view of completed requests: lines (`verbena admin trace`), or sums by account and bucket (`top`).
//
// Without a watcher a door only checks requests_are_observed(). A watcher has a bounded buffer that it empties from
// time to time; lines that do not fit are dropped and counted. A request waits for no watcher and no lock: when the
// lock is held too long, the line is dropped, too. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "observe/line.h"
#include "observe/observers.h"

namespace verbena::observe {

// The account's id in a principal's ARN; empty for none.
std::string_view account_of(std::string_view principal);

class RequestWatch {
 public:
  static constexpr size_t watchers_max = 16;
  static constexpr size_t lines_max = 1000;            // waiting for one watcher
  static constexpr size_t line_bytes_max = 256 * KiB;  // of them together
  static constexpr size_t names_max = 1000;            // of a watcher's sums; later ones count as others_name
  static constexpr std::string_view others_name = "(others)";
  static constexpr std::chrono::seconds idle_max{30};  // a watcher without requests for so long is removed

  // Filter of lines; empty and zero members match everything.
  struct Filter {
    std::string bucket, door, account;  // the account's id
    bool errors = false;                // answers of 400 and above, or none
    int64_t slower_than_us = 0;
  };
  enum class Wanted : uint8_t { lines, sums };

  // A new watcher's name, known only to its caller. limit_exceeded.
  Result<std::string> begin(Filter filter, Wanted wanted);
  void end(std::string_view name);

  struct Lines {
    std::string records;  // for each_line()
    size_t count = 0;
    uint64_t lost = 0;  // lines dropped since the last call
  };
  // Lines since the last call. no_such_entity: no such watcher (any more).
  Result<Lines> take_lines(std::string_view name);
  template <class Use>
  static void each_line(const Lines& lines, Use use) {
    for (std::string_view rest = lines.records; !rest.empty();) use(next_line(rest));
  }

  struct Sum {
    uint64_t requests = 0, errors = 0, bytes_in = 0, bytes_out = 0;
  };
  struct Sums {
    std::map<std::string, Sum, std::less<>> accounts, buckets;
    uint64_t lost = 0;
  };
  Result<Sums> take_sums(std::string_view name);

  // Reports a completed request. Any thread.
  void tell(const Line& line);

  size_t watchers() const;

 private:
  struct Watcher {
    std::string name;
    Filter filter;
    Wanted wanted = Wanted::lines;
    Lines lines{};
    Sums sums{};
    uint64_t missed_before = 0;  // of missed_, already reported
    SteadyClock::time_point taken{};
    Observing observing{};
  };
  static Line next_line(std::string_view& rest);
  static bool wants(const Filter& filter, const Line& line);
  static void add_line(Watcher& watcher, const Line& line);
  static void add_sums(Watcher& watcher, const Line& line);
  Watcher* find(std::string_view name, Wanted wanted);
  uint64_t take_missed(Watcher& watcher);
  template <class Gone>
  void remove_if(Gone gone);
  void forget_idle(SteadyClock::time_point now);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
  std::atomic<uint32_t> count_{0};   // of watchers
  std::atomic<uint64_t> missed_{0};  // lines that found the lock taken
};

}  // namespace verbena::observe
