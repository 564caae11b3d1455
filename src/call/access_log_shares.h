// Each caller's share of an access log's buffer, so that none displaces the lines of another. There are three separate
// parts: refused requests, which cost their sender nothing; reads; and changes, which are dropped last. In each part an
// account has a fair share (base/fair_share.h), and each address a fair share of its account's; unauthenticated callers
// are one account. Internal to call/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "observe/line.h"

namespace verbena::call {

enum class LogKind : uint8_t { refused, read, change };
inline constexpr size_t log_kinds = 3;

LogKind kind_of(const observe::Line& line);
std::string_view name_of(LogKind kind);     // "refused"
std::string_view not_logged(LogKind kind);  // the action of the line that reports dropped lines

// For one buffer; not thread-safe.
class LogShares {
 public:
  bool take(LogKind kind, const observe::Line& line, size_t bytes);
  // Called when the buffer was emptied. Refused requests count for a second, which limits their rate.
  void written(Deadline now);

 private:
  struct Room {
    uint64_t all = 0;
    std::unordered_map<uint64_t, uint64_t> of{};  // by hash: accounts, and addresses of accounts
  };
  std::array<Room, log_kinds> rooms_;
  Deadline refused_until_{};
};

// The number of dropped lines per caller. A bounded number of callers is named.
class LogDrops {
 public:
  struct Of {
    std::string principal, peer;  // unauthenticated callers have an address only
    auto operator<=>(const Of&) const = default;
  };
  void add(LogKind kind, const observe::Line& line, uint64_t count);
  void take(LogDrops& other);  // leaves it empty
  template <class F>
  void each(F f) const {
    for (size_t kind = 0; kind < log_kinds; ++kind) {
      for (const auto& [who, count] : counts_[kind]) f(static_cast<LogKind>(kind), who, count);
    }
  }

 private:
  static constexpr size_t named_max = 16;
  void add(LogKind kind, const Of& who, uint64_t count);
  std::array<std::map<Of, uint64_t>, log_kinds> counts_;
};

}  // namespace verbena::call
