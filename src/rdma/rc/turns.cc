#include "rdma/rc/turns.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace verbena::rdma::rc {

using Resume = std::function<void(Result<Turns::Turn>)>;

namespace {

std::unexpected<Error> too_late() {
  return fail(Errc::slow_down, "reliable connections: others' connections take too long");
}

}  // namespace

struct Turns::State : std::enable_shared_from_this<State> {
  struct Waiting {
    Resume resume;
    Deadline until;
  };
  struct One {
    std::string account;  // empty: not signed
    size_t taken = 0;
    std::deque<Waiting> waiting;
  };
  explicit State(const Limits& of) : limits(of) {}

  void add(const std::string& payer, const std::string& account, Resume resume);
  void give_back(const std::string& payer);
  void end();
  void grant();
  bool may_take(const One& one) const;
  bool grant_one(std::vector<std::pair<Resume, Turn>>& granted);
  std::vector<Resume> take_late();

  const Limits limits;
  std::mutex mutex;
  bool ended = false;
  size_t taken = 0;
  std::unordered_map<std::string, size_t> accounts;  // the turns that each has; all that are not signed are one
  std::unordered_map<std::string, One> payers;       // that wait or have a turn
  std::deque<std::string> order;                     // of those that wait, the next first
};

struct Turns::Held {
  std::shared_ptr<State> state;
  std::string payer;
  Held(std::shared_ptr<State> of, std::string whose) : state(std::move(of)), payer(std::move(whose)) {}
  Held(const Held&) = delete;
  ~Held() { state->give_back(payer); }
};

void Turns::State::add(const std::string& payer, const std::string& account, Resume resume) {
  {
    const std::lock_guard lock(mutex);
    if (!ended) {
      One& one = payers[payer];
      one.account = account;
      if (one.waiting.empty()) order.push_back(payer);
      one.waiting.push_back({std::exchange(resume, nullptr), deadline_in(limits.waits_max)});
    }
  }
  if (resume) return resume(fail(Errc::closed, "reliable connections: the server stops"));
  grant();
}

void Turns::State::give_back(const std::string& payer) {
  std::vector<Resume> late;
  {
    const std::lock_guard lock(mutex);
    const auto place = payers.find(payer);
    One& one = place->second;
    --one.taken;
    --taken;
    if (const auto account = accounts.find(one.account); --account->second == 0) accounts.erase(account);
    if (one.taken == 0 && one.waiting.empty()) payers.erase(place);
    late = take_late();
  }
  for (const Resume& resume : late) resume(too_late());
  grant();
}

// Under the lock. Those of a payer wait equally long, the oldest first.
std::vector<Resume> Turns::State::take_late() {
  const Deadline now = SteadyClock::now();
  std::vector<Resume> late;
  std::erase_if(order, [&](const std::string& payer) {
    const auto place = payers.find(payer);
    auto& waiting = place->second.waiting;
    for (; !waiting.empty() && now >= waiting.front().until; waiting.pop_front()) {
      late.push_back(std::move(waiting.front().resume));
    }
    if (!waiting.empty()) return false;
    if (place->second.taken == 0) payers.erase(place);
    return true;
  });
  return late;
}

bool Turns::State::may_take(const One& one) const {
  const auto of_account = accounts.find(one.account);
  const size_t account_max = one.account.empty() ? limits.unsigned_max : limits.account_max;
  return one.taken < limits.each_max && (of_account == accounts.end() || of_account->second < account_max);
}

// Under the lock. False: no place is free for any that waits.
bool Turns::State::grant_one(std::vector<std::pair<Resume, Turn>>& granted) {
  if (taken >= limits.all_max) return false;
  for (auto next = order.begin(); next != order.end(); ++next) {
    One& one = payers[*next];
    if (!may_take(one)) continue;
    ++one.taken;
    ++taken;
    ++accounts[one.account];
    std::string payer = std::move(*next);
    order.erase(next);
    granted.emplace_back(std::move(one.waiting.front().resume), std::make_shared<Held>(shared_from_this(), payer));
    one.waiting.pop_front();
    if (!one.waiting.empty()) order.push_back(std::move(payer));
    return true;
  }
  return false;
}

void Turns::State::grant() {
  std::vector<std::pair<Resume, Turn>> granted;
  {
    const std::lock_guard lock(mutex);
    while (grant_one(granted)) {
    }
  }
  for (auto& [resume, turn] : granted) resume(std::move(turn));
}

void Turns::State::end() {
  std::vector<std::deque<Waiting>> never;  // destroyed after the lock is released
  const std::lock_guard lock(mutex);
  ended = true;
  order.clear();
  for (auto& [payer, one] : payers) never.push_back(std::move(one.waiting));
  std::erase_if(payers, [](const auto& one) { return one.second.taken == 0; });
  for (auto& [payer, one] : payers) one.waiting.clear();
}

Turns::Turns(const Limits& limits) : state_(std::make_shared<State>(limits)) {}

void Turns::end() { state_->end(); }

Task<Result<Turns::Turn>> Turns::take(Payer payer) {
  namespace asio = boost::asio;
  const std::string who = payer.account + ' ' + client_of(payer.address);
  auto executor = co_await asio::this_coro::executor;
  auto initiate = [state = state_, who, account = payer.account, executor](auto handler) {
    // Shared, because std::function copies what it holds.
    auto waits = std::make_shared<decltype(handler)>(std::move(handler));
    state->add(who, account, [executor, waits](Result<Turn> turn) {
      asio::post(executor, [waits, turn = std::move(turn)]() mutable { (*waits)(std::move(turn)); });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Result<Turn>)>(initiate,
                                                                                              asio::use_awaitable);
}

}  // namespace verbena::rdma::rc
