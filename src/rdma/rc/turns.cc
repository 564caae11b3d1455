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

namespace verbena::rdma::rc {

using Resume = std::function<void(Turns::Turn)>;

struct Turns::State : std::enable_shared_from_this<State> {
  struct One {
    bool is_signed = false;
    size_t taken = 0;
    std::deque<Resume> waiting;
  };
  explicit State(const Limits& of) : limits(of) {}

  void add(const std::string& payer, bool is_signed, Resume resume);
  void give_back(const std::string& payer);
  void end();
  void grant();
  bool grant_one(std::vector<std::pair<Resume, Turn>>& granted);

  const Limits limits;
  std::mutex mutex;
  bool ended = false;
  size_t taken = 0, taken_unsigned = 0;
  std::unordered_map<std::string, One> payers;  // that wait or have a turn
  std::deque<std::string> order;                // of those that wait, the next first
};

struct Turns::Held {
  std::shared_ptr<State> state;
  std::string payer;
  Held(std::shared_ptr<State> of, std::string whose) : state(std::move(of)), payer(std::move(whose)) {}
  Held(const Held&) = delete;
  ~Held() { state->give_back(payer); }
};

void Turns::State::add(const std::string& payer, bool is_signed, Resume resume) {
  {
    const std::lock_guard lock(mutex);
    if (!ended) {
      One& one = payers[payer];
      one.is_signed = is_signed;
      if (one.waiting.empty()) order.push_back(payer);
      one.waiting.push_back(std::exchange(resume, nullptr));
    }
  }
  if (resume) return resume(nullptr);
  grant();
}

void Turns::State::give_back(const std::string& payer) {
  {
    const std::lock_guard lock(mutex);
    const auto place = payers.find(payer);
    One& one = place->second;
    --one.taken;
    --taken;
    if (!one.is_signed) --taken_unsigned;
    if (one.taken == 0 && one.waiting.empty()) payers.erase(place);
  }
  grant();
}

// Under the lock. False: no place is free for any that waits.
bool Turns::State::grant_one(std::vector<std::pair<Resume, Turn>>& granted) {
  if (taken >= limits.all_max) return false;
  for (auto next = order.begin(); next != order.end(); ++next) {
    One& one = payers[*next];
    if (one.taken >= limits.each_max || (!one.is_signed && taken_unsigned >= limits.unsigned_max)) continue;
    ++one.taken;
    ++taken;
    if (!one.is_signed) ++taken_unsigned;
    std::string payer = std::move(*next);
    order.erase(next);
    granted.emplace_back(std::move(one.waiting.front()), std::make_shared<Held>(shared_from_this(), payer));
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
  std::vector<std::deque<Resume>> never;  // destroyed after the lock is released
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
  const bool is_signed = !payer.account.empty();
  const std::string who = is_signed ? "account:" + payer.account : "address:" + client_of(payer.address);
  auto executor = co_await asio::this_coro::executor;
  auto initiate = [state = state_, who, is_signed, executor](auto handler) {
    // Shared, because std::function copies what it holds.
    auto waits = std::make_shared<decltype(handler)>(std::move(handler));
    state->add(who, is_signed, [executor, waits](Turn turn) {
      asio::post(executor, [waits, turn = std::move(turn)]() mutable { (*waits)(std::move(turn)); });
    });
  };
  Turn turn = co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Turn)>(initiate, asio::use_awaitable);
  if (turn == nullptr) co_return fail(Errc::closed, "reliable connections: the server stops");
  co_return turn;
}

}  // namespace verbena::rdma::rc
