// The formats of rows and notices that the servers of a cluster write and read, as numbers that grow. So servers of
// several versions run side by side, and none writes what another one cannot read.
//
// Row "format" of the servers' object: the cluster's format, which every server writes and reads, and a random token.
// Row "v" server: the oldest and the newest format that the server knows, as long as it runs. A server that starts
// replaces the token in the call that writes its own row, and does not start if it does not know the cluster's format.
// A new store has the newest format at once.
//
// Servers from before formats have no such row and count as knowing format 1. They do not read "format", but the ids of
// the master keys, after their first sign of life: a line there that is no id (the gate line) keeps them from starting.
// It stands there whenever the format is above 1; whichever server starts, or leads, writes it again if it was lost.
//
// The leader raises the format to the newest that all servers know, when that has been so for a while (until then an
// older version can come back), in two steps. First it writes the gate line. Then it reads the signs of life anew: a
// server from before formats that read the ids before the line was there had its sign there earlier, and is seen now.
// If each server with a sign has said that it knows the new format, a call raises it that compares the token, so that a
// server that came meanwhile is seen, too. If one has not, the leader takes the gate line away again, so that older
// servers can start as long as the format is 1. What remains is such a server that was silent until the others gave it
// up, and continues later: while its sign is there, nothing is done that needs a format above 1 (all_know_it()).
//
// What a server has learned so holds for a time only: one that cannot read the servers' object any more, so that the
// others give it up and may raise the format, answers nothing before they can (known_for()).
//
//   1  as it always was
//   2  tablets are joined (upkeep/joiner.h); each server that knows it compares fences (upkeep/tombstones.h)
//   3  objects have ends (rows/end_rows.h)
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
#include "base/lease_clock.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

inline constexpr uint64_t format_oldest = 1, format_newest = 3;
inline constexpr uint64_t format_of_joins = 2, format_of_fences = 2, format_of_ends = 3;

using ServersRows = std::map<std::string, std::string>;  // of the servers' object

// A sentence for operators if a server that knows the formats from `oldest` to `newest` may not run beside the others.
std::optional<std::string> refused(uint64_t format, uint64_t oldest, uint64_t newest);

// The cluster's format; 1 if no server has ever known formats. Else a row that is missing or no number is an error, a
// sentence for operators. That servers knew formats is told by their rows, by the gate line, which each store has whose
// format is not 1, and by an attribute of the root object (`marked`).
std::expected<uint64_t, std::string> format_in(const ServersRows& rows, bool marked = false);
// The newest format, up to `newest`, that each server with a sign of life knows.
uint64_t known_by_all(const ServersRows& rows, uint64_t newest);

// The ids of the master keys with the gate line of that format, or whether they have one.
std::string with_gate_line(std::string_view ids, uint64_t format);
std::string without_gate_line(std::string_view ids);
bool has_gate_line(std::string_view ids);

// A server's row.
std::string formats_row(uint64_t incarnation);

class Formats {
 public:
  // `rest`: time for which all servers have known a format before it is the cluster's.
  Formats(Registry& registry, std::chrono::milliseconds rest) : registry_(registry), rest_(rest) {}

  // Call with a sign of life in place. The error is a sentence for operators: this server may not run.
  Task<std::expected<void, std::string>> join(uint64_t incarnation, bool new_store);
  // Whether servers that know formats have run over this store.
  Task<Result<bool>> is_marked();
  // All rows of the servers' object, as read every few seconds. `since`: when this server began to store the last sign
  // of life that they have, or to read them without one. The leader raises the format. A server that others gave up
  // joins again.
  Task<Result<void>> look(const ServersRows& rows, bool is_leader, LeaseClock::time_point since = LeaseClock::now());

  uint64_t current() const { return current_.load(std::memory_order_relaxed); }
  // False: the others have gone on to a format that this server does not know, while it was away, or may have. It
  // answers nothing then, and changes nothing in the cluster (Cluster::allow_writes_until).
  bool may_run() const { return may_run(LeaseClock::now()); }
  bool may_run(LeaseClock::time_point now) const { return registry_.cluster().may_write(now); }
  // False: a server runs that does not know the cluster's format, or this server has not looked for some seconds.
  bool all_know_it() const { return LeaseClock::now().time_since_epoch().count() < all_know_it_until_.load(); }
  // How long the format stays true after a sign of life: no other server raises it earlier, as each gives this one up
  // after Garbage::silence_max, and then waits for `rest`.
  std::chrono::milliseconds known_for() const;

 private:
  Task<std::expected<bool, std::string>> join_once(uint64_t incarnation, bool new_store);
  Task<int> mark();
  enum class Step : uint8_t { open_gate, close_gate, raise };
  Task<Result<void>> look_as_leader(const ServersRows& rows, uint64_t format);
  Task<Result<void>> take(Step step, const ServersRows& rows, uint64_t to);
  void know(uint64_t format, LeaseClock::time_point since);
  void watch_others(const ServersRows& rows, uint64_t format, LeaseClock::time_point since);
  void complain(const std::string& trouble);

  Registry& registry_;
  const std::chrono::milliseconds rest_;
  std::atomic<uint64_t> current_{1};
  std::atomic<LeaseClock::rep> all_know_it_until_{0};
  uint64_t incarnation_ = 0;                   // 0: has not joined yet
  std::optional<Deadline> all_know_since_;     // on the leader: a newer format
  std::optional<Deadline> some_do_not_since_;  // the cluster's
  std::string complaint_;                      // told last
};

}  // namespace verbena::store::rados
