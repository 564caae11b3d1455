// Requests as they end, for people who watch: lines (`verbena admin trace`), or sums by account and bucket (`top`).
//
// Nobody watching: a door looks at requests_are_observed() and goes on. A watcher has a bounded buffer that it empties
// from time to time; what does not fit is lost to it and counted. A request waits for no watcher and for no lock: where
// the lock is taken for too long, the line is lost, too. Thread-safe.
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
  static constexpr size_t lines_max = 1000;            // that wait for one watcher
  static constexpr size_t line_bytes_max = 256 * KiB;  // of them together
  static constexpr size_t names_max = 1000;            // of a watcher's sums; what comes later counts as others_name
  static constexpr std::string_view others_name = "(others)";
  static constexpr std::chrono::seconds idle_max{30};  // a watcher that takes nothing for so long is gone

  // What a line must be like; empty and zero members ask for nothing.
  struct Filter {
    std::string bucket, door, account;  // the account's id
    bool errors = false;                // answers of 400 and above, or none
    int64_t slower_than_us = 0;
  };
  enum class Wanted : uint8_t { lines, sums };

  // A new watcher's name, which is a secret of whoever asked. limit_exceeded.
  Result<std::string> begin(Filter filter, Wanted wanted);
  void end(std::string_view name);

  struct Lines {
    std::string records;  // for each_line()
    size_t count = 0;
    uint64_t lost = 0;  // lines since the last time that the watcher does not get
  };
  // What has come since the last time. no_such_entity: there is no such watcher (any more).
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

  // A request has ended. Any thread.
  void tell(const Line& line);

  size_t watchers() const;

 private:
  struct Watcher {
    std::string name;
    Filter filter;
    Wanted wanted = Wanted::lines;
    Lines lines{};
    Sums sums{};
    uint64_t missed_before = 0;  // of missed_, what was told already
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
