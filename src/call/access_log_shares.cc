#include "call/access_log_shares.h"

#include "base/bytes.h"
#include "base/client_counts.h"
#include "base/fair_share.h"
#include "observe/request_watch.h"

namespace verbena::call {
namespace {

constexpr std::array<uint64_t, log_kinds> room_bytes{1 * MiB, 4 * MiB, 4 * MiB};
constexpr std::chrono::seconds refused_for{1};

uint64_t hash_of(std::string_view text, uint64_t seed) {
  return (std::hash<std::string_view>{}(text) ^ seed) * 0x9e3779b97f4a7c15;
}

// An IPv4 address is used whole; an IPv6 address is reduced to its network.
uint64_t hash_of_peer(std::string_view peer, uint64_t seed) {
  if (peer.find(':') == std::string_view::npos) return hash_of(peer, seed);
  return hash_of(client_of(peer), seed);
}

}  // namespace

LogKind kind_of(const observe::Line& line) {
  if (observe::is_refused(line)) return LogKind::refused;
  const bool reads = line.action.starts_with("GET ") || line.action.starts_with("HEAD ");
  return reads ? LogKind::read : LogKind::change;
}

std::string_view name_of(LogKind kind) {
  constexpr std::array<std::string_view, log_kinds> names{"refused", "read", "change"};
  return names[static_cast<size_t>(kind)];
}

std::string_view not_logged(LogKind kind) {
  constexpr std::array<std::string_view, log_kinds> names{"not logged: refused", "not logged: reads",
                                                          "not logged: changes"};
  return names[static_cast<size_t>(kind)];
}

bool LogShares::take(LogKind kind, const observe::Line& line, size_t bytes) {
  Room& room = rooms_[static_cast<size_t>(kind)];
  const uint64_t most = room_bytes[static_cast<size_t>(kind)];
  const uint64_t account = hash_of(observe::account_of(line.principal), 1);
  const uint64_t peer = hash_of_peer(line.peer, account);
  const auto taken = [&room](uint64_t who) {
    const auto found = room.of.find(who);
    return found == room.of.end() ? 0 : found->second;
  };
  const uint64_t of_account = taken(account);
  if (!fits_fair_share(room.all, of_account, bytes, most)) return false;
  if (!fits_fair_share(of_account, taken(peer), bytes, fair_share(room.all - of_account, most))) return false;
  room.all += bytes;
  room.of[account] += bytes;
  room.of[peer] += bytes;
  return true;
}

void LogShares::written(Deadline now) {
  for (const LogKind kind : {LogKind::read, LogKind::change}) rooms_[static_cast<size_t>(kind)] = {};
  if (now < refused_until_) return;
  refused_until_ = now + refused_for;
  rooms_[static_cast<size_t>(LogKind::refused)] = {};
}

void LogDrops::add(LogKind kind, const observe::Line& line, uint64_t count) {
  add(kind, Of{std::string(line.principal), std::string(line.peer)}, count);
}

// Callers beyond the number of named ones are summed up without a name.
void LogDrops::add(LogKind kind, const Of& who, uint64_t count) {
  auto& counts = counts_[static_cast<size_t>(kind)];
  const auto found = counts.find(who);
  if (found != counts.end()) {
    found->second += count;
  } else if (counts.size() < named_max) {
    counts.emplace(who, count);
  } else {
    counts[Of{}] += count;
  }
}

void LogDrops::take(LogDrops& other) {
  other.each([this](LogKind kind, const Of& who, uint64_t count) { add(kind, who, count); });
  other = {};
}

}  // namespace verbena::call
