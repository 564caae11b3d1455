#include "native/session_table.h"

#include <vector>

namespace verbena::native {
namespace {

int64_t ns(SteadyClock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

}  // namespace

Result<void> SessionTable::add(const std::shared_ptr<Session>& session, wire::Nonce client, wire::Nonce server,
                               std::string_view secret_key) {
  if (size_.fetch_add(1, std::memory_order_relaxed) >= limits_.sessions_max) {
    size_.fetch_sub(1, std::memory_order_relaxed);
    return fail(Errc::slow_down, "native: too many sessions");
  }
  session->last_used_ns = ns(SteadyClock::now());
  for (;;) {
    fill_random(std::as_writable_bytes(std::span(&session->id, 1)));
    if (session->id == 0) continue;
    session->master = wire::derive_master(secret_key, client, server, session->id);
    Shard& home = shard(session->id);
    std::lock_guard lock(home.mutex);
    if (home.sessions.emplace(session->id, session).second) return {};
  }
}

std::shared_ptr<Session> SessionTable::find(uint64_t id) const {
  const Shard& home = shard(id);
  std::lock_guard lock(home.mutex);
  auto it = home.sessions.find(id);
  return it == home.sessions.end() ? nullptr : it->second;
}

void SessionTable::end(uint64_t id) {
  Shard& home = shard(id);
  std::lock_guard lock(home.mutex);
  auto it = home.sessions.find(id);
  if (it == home.sessions.end()) return;
  it->second->ended = true;
  home.sessions.erase(it);
  size_.fetch_sub(1, std::memory_order_relaxed);
}

size_t SessionTable::sweep(SteadyClock::time_point now) {
  size_t ended = 0;
  for (Shard& home : shards_) {
    std::lock_guard lock(home.mutex);
    ended += std::erase_if(home.sessions, [&](auto& entry) {
      Session& session = *entry.second;
      const auto patience = session.claimed ? limits_.idle_timeout : limits_.hello_timeout;
      if (ns(now) - session.last_used_ns < patience.count()) return false;
      session.ended = true;
      return true;
    });
  }
  size_.fetch_sub(ended, std::memory_order_relaxed);
  return ended;
}

bool NonceMemory::fresh(const wire::Nonce& nonce, SteadyClock::time_point now) {
  std::string key(as_text(nonce));
  std::lock_guard lock(mutex_);
  while (!by_age_.empty() && (by_age_.front().first + keep_for < now || by_age_.size() >= size_max)) {
    known_.erase(by_age_.front().second);
    by_age_.pop_front();
  }
  if (!known_.insert(key).second) return false;
  by_age_.emplace_back(now, std::move(key));
  return true;
}

}  // namespace verbena::native
