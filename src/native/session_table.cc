#include "native/session_table.h"

#include <algorithm>

#include "base/log.h"
#include "base/log_limit.h"

#include <vector>

namespace verbena::native {
namespace {

int64_t ns(SteadyClock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

metrics::Counter& refused(const char* limit) {
  return metrics::counter("verbena_native_sessions_over_limit_total", "Native sessions refused for a limit",
                          {{"limit", limit}});
}

// Frees its places at once, even if the session is still referenced.
void end_session(Session& session) {
  session.ended = true;
  session.of_account.reset();
  session.of_client.reset();
}

}  // namespace

SessionTable::SessionTable(Limits limits)
    : limits_(limits),
      accounts_({.each_max = limits.account_max, .clients_max = 0}),
      clients_({.each_max = limits.client_max, .clients_max = 0}),
      refused_all_(refused("all")),
      refused_account_(refused("account")),
      refused_client_(refused("client")) {}

Result<void> SessionTable::take_place(Session& session) {
  const auth::Principal* who = session.identity.principal.get();
  const bool superuser = auth::is_unlimited_root(who, session.identity.key.get());
  const size_t most = superuser ? limits_.sessions_max : limits_.sessions_max - limits_.reserved;
  if (size_.fetch_add(1, std::memory_order_relaxed) >= most) {
    size_.fetch_sub(1, std::memory_order_relaxed);
    refused_all_.add();
    return fail(Errc::slow_down, "native: too many sessions");
  }
  if (superuser || who == nullptr || who->account == nullptr) return {};
  session.of_account = accounts_.try_hold(who->account->id);
  session.of_client = clients_.try_hold(client_of(session.peer_address));
  if (session.of_account != nullptr && session.of_client != nullptr) return {};
  const bool of_account = session.of_account == nullptr;
  (of_account ? refused_account_ : refused_client_).add();
  give_place_back(session);
  return fail(Errc::slow_down,
              of_account ? "native: too many sessions of this account" : "native: too many sessions from this address");
}

void SessionTable::give_place_back(Session& session) {
  session.of_account.reset();
  session.of_client.reset();
  size_.fetch_sub(1, std::memory_order_relaxed);
}

Result<void> SessionTable::add(const std::shared_ptr<Session>& session, const MakeMaster& make_master) {
  VB_TRY(take_place(*session));
  session->used(SteadyClock::now());
  for (;;) {
    fill_random(std::as_writable_bytes(std::span(&session->id, 1)));
    if (session->id == 0) continue;
    const auto master = make_master(session->id);
    if (!master) {
      give_place_back(*session);
      return std::unexpected(master.error());
    }
    session->master = *master;
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
  end_session(*it->second);
  home.sessions.erase(it);
  size_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Session>> SessionTable::all() const {
  std::vector<std::shared_ptr<Session>> found;
  for (const Shard& home : shards_) {
    const std::lock_guard lock(home.mutex);
    for (const auto& [id, session] : home.sessions) found.push_back(session);
  }
  return found;
}

size_t SessionTable::sweep(SteadyClock::time_point now) {
  size_t ended = 0;
  for (Shard& home : shards_) {
    std::lock_guard lock(home.mutex);
    ended += std::erase_if(home.sessions, [&](auto& entry) {
      Session& session = *entry.second;
      const auto patience = session.claimed ? limits_.idle_timeout : limits_.hello_timeout;
      if (ns(now) - session.last_used_ns < patience.count()) return false;
      end_session(session);
      return true;
    });
  }
  size_.fetch_sub(ended, std::memory_order_relaxed);
  return ended;
}

void NonceMemory::forget_first(Part& part) {
  known_.erase(part.front().nonce);
  part.pop_front();
}

void NonceMemory::forget_old(Part& part, SteadyClock::time_point now) {
  while (!part.empty() && part.front().at + keep_for < now) forget_first(part);
}

// What is past its time goes; if nothing is, the oldest of the account that has most.
void NonceMemory::make_room(SteadyClock::time_point now) {
  for (auto& [account, part] : parts_) forget_old(part, now);
  std::erase_if(parts_, [](const auto& one) { return one.second.empty(); });
  if (known_.size() < size_max) return;
  const auto by_size = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  forget_first(std::ranges::max_element(parts_, by_size)->second);
}

Result<void> NonceMemory::take(const wire::Nonce& nonce, const auth::Identity& who, SteadyClock::time_point now) {
  const auth::Principal* const principal = who.principal.get();
  const bool of_account = principal != nullptr && principal->account != nullptr;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= size_max) make_room(now);
  Part& part = parts_[of_account ? principal->account->id : std::string()];
  forget_old(part, now);
  if (known_.contains(nonce)) return fail(Errc::access_denied, "native: this session request was used before");
  if (part.size() >= account_max) {
    static log::Limit limit;
    limit.warn(
        "native: account {} opens so many sessions that their requests are not remembered for as long as they "
        "are signed for",
        of_account ? principal->account->id : std::string());
    forget_first(part);
  }
  known_.insert(nonce);
  part.push_back({now, nonce});
  return {};
}

}  // namespace verbena::native
