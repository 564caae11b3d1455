#include "rdma/rc/turns.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/owners_queue.h"

namespace verbena::rdma::rc {

using Resume = std::function<void(Result<Turns::Turn>)>;

namespace {

std::unexpected<Error> too_late() { return fail(Errc::slow_down, "queue pairs: others' connections take too long"); }

}  // namespace

struct Turns::State : std::enable_shared_from_this<State> {
  struct Waiting {
    Resume resume;
    std::string account;  // empty: not signed
    Deadline until;
  };
  using Counts = std::unordered_map<std::string, size_t>;
  explicit State(const Limits& of) : limits(of) {}

  void add(const std::string& payer, const std::string& account, Resume resume);
  void give_back(const std::string& payer, const std::string& account);
  void end();
  void grant();
  bool may_take(const std::string& payer, const Waiting& waiting) const;
  bool grant_one(std::vector<std::pair<Resume, Turn>>& granted);

  const Limits limits;
  std::mutex mutex;
  bool ended = false;
  size_t taken = 0;
  Counts payers, accounts;  // the turns that each has; all that are not signed are one account
  OwnersQueue<Waiting> queue;
};

struct Turns::Held {
  std::shared_ptr<State> state;
  std::string payer, account;
  Held(std::shared_ptr<State> of, std::string whose, std::string of_account)
      : state(std::move(of)), payer(std::move(whose)), account(std::move(of_account)) {}
  Held(const Held&) = delete;
  ~Held() { state->give_back(payer, account); }
};

void Turns::State::add(const std::string& payer, const std::string& account, Resume resume) {
  {
    const std::lock_guard lock(mutex);
    if (!ended) queue.add(payer, {std::exchange(resume, nullptr), account, deadline_in(limits.waits_max)});
  }
  if (resume) return resume(fail(Errc::closed, "queue pairs: the server stops"));
  grant();
}

void Turns::State::give_back(const std::string& payer, const std::string& account) {
  std::vector<Waiting> late;
  {
    const std::lock_guard lock(mutex);
    const auto count_down = [](Counts& counts, const std::string& name) {
      const auto place = counts.find(name);
      if (--place->second == 0) counts.erase(place);
    };
    count_down(payers, payer);
    count_down(accounts, account);
    --taken;
    // Those of a payer wait equally long, the oldest first.
    late = queue.take_leading([now = SteadyClock::now()](const Waiting& one) { return now >= one.until; });
  }
  for (const Waiting& one : late) one.resume(too_late());
  grant();
}

bool Turns::State::may_take(const std::string& payer, const Waiting& waiting) const {
  const auto has_fewer_than = [](size_t most, const Counts& counts, const std::string& name) {
    const auto place = counts.find(name);
    return place == counts.end() || place->second < most;
  };
  const size_t account_max = waiting.account.empty() ? limits.unsigned_max : limits.account_max;
  return has_fewer_than(limits.each_max, payers, payer) && has_fewer_than(account_max, accounts, waiting.account);
}

// Under the lock. False: no place is free for any that waits.
bool Turns::State::grant_one(std::vector<std::pair<Resume, Turn>>& granted) {
  if (taken >= limits.all_max) return false;
  auto next = queue.next([this](const std::string& payer, const Waiting& one) { return may_take(payer, one); });
  if (!next) return false;
  ++taken;
  ++payers[next->owner];
  ++accounts[next->item.account];
  granted.emplace_back(std::move(next->item.resume), std::make_shared<Held>(shared_from_this(), std::move(next->owner),
                                                                            std::move(next->item.account)));
  return true;
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
  OwnersQueue<Waiting> never;  // destroyed after the lock is released
  const std::lock_guard lock(mutex);
  ended = true;
  std::swap(never, queue);
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
