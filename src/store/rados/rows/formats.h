// The formats of rows and notices that the servers of a cluster write and read, as numbers that grow. So servers of
// several versions run side by side, and none writes what another one cannot read.
//
// Row "format" of the servers' object: the cluster's format, which every server writes and reads, and a random token.
// Row "v" server: the oldest and the newest format that the server knows, as long as it runs. A server that starts
// replaces the token in the call that writes its own row, and does not start if it does not know the cluster's format.
// The leader raises the format to the newest that all servers know, when that has been so for a while (until then an
// older version can come back), by a call that compares the token: a server that came meanwhile is seen. A new store
// has the newest format at once.
//
// Servers from before formats have no such row and count as knowing format 1. They do not read "format", but the ids of
// the master keys: a line there that is no id keeps them from starting once the format is above 1.
//
//   1  as it always was
//   2  tablets are joined (upkeep/joiner.h)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

inline constexpr uint64_t format_oldest = 1, format_newest = 2;
inline constexpr uint64_t format_of_joins = 2;

// A sentence for operators if a server that knows the formats from `oldest` to `newest` may not run beside the others.
std::optional<std::string> refused(uint64_t format, uint64_t oldest, uint64_t newest);

// A server's row.
std::string formats_row(uint64_t incarnation);

class Formats {
 public:
  // `rest`: time for which all servers have known a format before it is the cluster's.
  Formats(Registry& registry, std::chrono::milliseconds rest) : registry_(registry), rest_(rest) {}

  // Call with a sign of life in place. The error is a sentence for operators: this server may not run.
  Task<std::expected<void, std::string>> join(uint64_t incarnation, bool new_store);
  // All rows of the servers' object, as read every few seconds. The leader raises the format. A server that others gave
  // up joins again.
  Task<Result<void>> look(const std::map<std::string, std::string>& rows, bool is_leader);

  uint64_t current() const { return current_.load(std::memory_order_relaxed); }
  // False: the others have gone on to a format that this server does not know, while it was away.
  bool may_run() const { return current() <= format_newest; }

 private:
  Task<Result<void>> raise(const std::map<std::string, std::string>& rows, std::string seen, uint64_t to);
  void know(uint64_t format);

  Registry& registry_;
  const std::chrono::milliseconds rest_;
  std::atomic<uint64_t> current_{1};
  uint64_t incarnation_ = 0;                // 0: has not joined yet
  std::optional<Deadline> all_know_since_;  // on the leader
};

}  // namespace verbena::store::rados
