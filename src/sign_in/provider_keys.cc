#include "sign_in/provider_keys.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/fair_share.h"
#include "base/log.h"
#include "sign_in/counts.h"

namespace verbena::sign_in {
namespace {

constexpr int64_t failed_rest_max_s = 60;
constexpr int doublings_max = 8;

std::string name_of(const Issuer& issuer) {
  std::string name = issuer.account + "\n" + issuer.url + "\n" + issuer.tag;
  for (const std::string& thumbprint : issuer.thumbprints) name.append("\n").append(thumbprint);
  return name;
}

std::string_view account_of(std::string_view name) { return name.substr(0, name.find('\n')); }

metrics::Counter& fetches_counter(bool good) {
  static constexpr const char* help = "Fetches of identity providers' keys";
  static metrics::Counter& fetched = metrics::counter("verbena_sign_in_fetches_total", help, {{"result", "ok"}});
  static metrics::Counter& failed = metrics::counter("verbena_sign_in_fetches_total", help, {{"result", "failed"}});
  return good ? fetched : failed;
}

}  // namespace

struct ProviderKeys::State {
  struct Entry {
    std::shared_ptr<const KeySet> keys;
    int64_t fetched_s = 0, next_fetch_s = 0, used_s = 0;
    int failures = 0;
    bool fetching = false;
    std::vector<std::function<void()>> waiters;  // of the fetch in progress
  };

  struct OfAccount {
    size_t fetches = 0, waiting = 0;
  };

  State(BlockingPool& pool, const WallClock& clock, Fetch fetch, Limits limits)
      : pool(pool), clock(clock), fetch(std::move(fetch)), limits(limits) {}

  // With the mutex held. Null: there is no room for another one.
  Entry* entry_of(const std::string& name) {
    const auto found = entries.find(name);
    if (found != entries.end()) return &found->second;
    if (entries.size() >= limits.issuers_max && !make_room()) return nullptr;
    return &entries[name];
  }

  // Drops the least recently used one of the account with the most: an account with many displaces its own.
  bool make_room() {
    std::map<std::string_view, size_t> of_accounts;
    for (const auto& [name, entry] : entries) ++of_accounts[account_of(name)];
    auto gone = entries.end();
    size_t most = 0;
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if (it->second.fetching) continue;
      const size_t theirs = of_accounts[account_of(it->first)];
      const bool older =
          gone == entries.end() || theirs > most || (theirs == most && it->second.used_s < gone->second.used_s);
      if (!older) continue;
      gone = it;
      most = theirs;
    }
    if (gone == entries.end()) return false;
    entries.erase(gone);
    return true;
  }

  enum class Start : uint8_t { begun, joined, not_now, refused };
  Start start(const Issuer& issuer, const std::string& name, std::function<void()> wake);
  void run(const Issuer& issuer, const std::string& name);
  void finish(const Issuer& issuer, const std::string& name, Result<KeySet> result);

  BlockingPool& pool;
  const WallClock& clock;
  const Fetch fetch;
  const Limits limits;
  std::atomic<bool> stopping = false;
  std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::map<std::string, OfAccount> accounts;  // with fetches in progress
  size_t fetches = 0, waiting = 0;
};

ProviderKeys::State::Start ProviderKeys::State::start(const Issuer& issuer, const std::string& name,
                                                      std::function<void()> wake) {
  const std::lock_guard lock(mutex);
  if (stopping) return Start::refused;
  const auto of_account = accounts.find(issuer.account);
  const OfAccount theirs = of_account == accounts.end() ? OfAccount() : of_account->second;
  if (!fits_fair_share(waiting, theirs.waiting, 1, limits.waiters_max)) return Start::refused;
  const auto known = entries.find(name);
  const bool first = known == entries.end() || !known->second.fetching;
  if (first) {
    if (known != entries.end() && clock.now_s() < known->second.next_fetch_s) return Start::not_now;
    if (fetches >= limits.fetches_max || theirs.fetches >= limits.account_fetches_max) return Start::refused;
  }
  Entry* const entry = entry_of(name);
  if (entry == nullptr) return Start::refused;
  entry->used_s = clock.now_s();
  OfAccount& held = accounts[issuer.account];
  if (first) {
    entry->fetching = true;
    ++fetches;
    ++held.fetches;
  }
  entry->waiters.push_back(std::move(wake));
  ++waiting;
  ++held.waiting;
  return first ? Start::begun : Start::joined;
}

void ProviderKeys::State::finish(const Issuer& issuer, const std::string& name, Result<KeySet> result) {
  std::vector<std::function<void()>> woken;
  {
    const std::lock_guard lock(mutex);
    Entry& entry = entries[name];
    const int64_t now_s = clock.now_s();
    if (result) {
      entry.keys = std::make_shared<const KeySet>(std::move(*result));
      entry.fetched_s = now_s;
      entry.failures = 0;
      entry.next_fetch_s = now_s + limits.rest_s;
    } else {
      const int64_t rest = limits.failed_rest_s << std::min(entry.failures, doublings_max);
      entry.next_fetch_s = now_s + std::min(rest, std::max(failed_rest_max_s, limits.failed_rest_s));
      ++entry.failures;
    }
    entry.fetching = false;
    woken.swap(entry.waiters);
    waiting -= woken.size();
    --fetches;
    const auto held = accounts.find(issuer.account);
    held->second.waiting -= woken.size();
    if (--held->second.fetches == 0) accounts.erase(held);
  }
  for (const auto& wake : woken) wake();
}

void ProviderKeys::State::run(const Issuer& issuer, const std::string& name) {
  auto result = fetch(issuer, stopping);
  fetches_counter(result.has_value()).add();
  if (!result && !stopping) {
    log::warn("sign-in: no keys of https://{} (account {}): {}", log::printable(issuer.url), issuer.account,
              describe(result.error()));
  }
  finish(issuer, name, std::move(result));
}

ProviderKeys::ProviderKeys(BlockingPool& pool, const WallClock& clock, Fetch fetch, Limits limits)
    : state_(std::make_shared<State>(pool, clock, std::move(fetch), limits)) {
  fetches_counter(true);
  sign_ins_counter(By::web_identity, true);
}

ProviderKeys::~ProviderKeys() { stop(); }

void ProviderKeys::stop() { state_->stopping = true; }

ProviderKeys::Known ProviderKeys::find(const Issuer& issuer) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->entries.find(name_of(issuer));
  if (found == state_->entries.end() || found->second.keys == nullptr) return {};
  State::Entry& entry = found->second;
  const int64_t now_s = state_->clock.now_s();
  entry.used_s = now_s;
  if (now_s >= entry.fetched_s + state_->limits.kept_s) return {};
  return {entry.keys, now_s < entry.fetched_s + state_->limits.fresh_s};
}

Task<Result<void>> ProviderKeys::refresh(Issuer issuer) {
  const auto state = state_;
  const auto executor = co_await boost::asio::this_coro::executor;
  auto begin = [state, executor, issuer = std::move(issuer)](auto handler) {
    // Shared because std::function copies what it holds.
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    const auto answer = [executor, shared](Result<void> result) {
      boost::asio::post(executor, [shared, result]() mutable { (*shared)(std::move(result)); });
    };
    const std::string name = name_of(issuer);
    const auto start = state->start(issuer, name, [answer] { answer({}); });
    if (start == State::Start::joined) return;
    if (start == State::Start::not_now) return answer({});
    if (start == State::Start::refused) return answer(fail(Errc::slow_down, "sign-in: too many wait for providers"));
    if (state->pool.submit("sign-in", [state, issuer, name] { state->run(issuer, name); })) return;
    state->finish(issuer, name, fail(Errc::slow_down, "sign-in: no thread is free"));
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(begin), boost::asio::use_awaitable);
}

}  // namespace verbena::sign_in
