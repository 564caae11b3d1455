#include "store/rados/coherence/late_calls.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>

#include "base/log.h"

namespace verbena::store::rados {
namespace {

constexpr std::chrono::milliseconds bar_rest_min{5}, bar_rest_max{200};  // doubled each time
constexpr std::chrono::milliseconds raise_again_after{1'000};

}  // namespace

Task<bool> LateCalls::bar(uint64_t bucket, uint64_t epoch) {
  add(bucket, epoch);
  const auto until = deadline_in(wait_max);
  for (auto rest = bar_rest_min; is_wanted(bucket); rest = std::min(2 * rest, bar_rest_max)) {
    if (stopping_ || SteadyClock::now() > until) co_return false;
    co_await pause(rest);
  }
  co_return true;
}

void LateCalls::add(uint64_t bucket, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const auto [wanted, is_new] = wanted_.try_emplace(bucket, epoch);
  wanted->second = std::max(wanted->second, epoch);
  if (!is_new) return;
  queue_.push_back(bucket);
  if (tasks_ == runs_max) return;
  ++tasks_;
  // Posted, because on the thread of `io` it would run here and take the mutex.
  boost::asio::post(io_, [this] { boost::asio::co_spawn(io_, work(), boost::asio::detached); });
}

bool LateCalls::is_wanted(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(bucket);
}

// None: the task ends.
std::optional<LateCalls::Wanted> LateCalls::take() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty() || stopping_) {
    --tasks_;
    return std::nullopt;
  }
  const uint64_t bucket = queue_.front();
  queue_.pop_front();
  return Wanted(bucket, wanted_.at(bucket));
}

// `known`: an epoch that every server knows. If another late call was added that a later one guards, it is done again.
void LateCalls::end(uint64_t bucket, uint64_t known) {
  const std::lock_guard lock(mutex_);
  const auto wanted = wanted_.find(bucket);
  if (wanted->second < known) {
    wanted_.erase(wanted);
  } else {
    queue_.push_back(bucket);
  }
}

Task<> LateCalls::work() {
  while (const auto next = take()) {
    const auto known = co_await raise(next->first, next->second);
    if (!known) log::debug("rados: bucket {}: a late call is not barred yet: {}", next->first, describe(known.error()));
    end(next->first, known.value_or(0));
    if (!known && !stopping_) co_await pause(raise_again_after);
  }
}

Task<Result<uint64_t>> LateCalls::raise(uint64_t bucket, uint64_t above) {
  auto state = co_await registry_.load(bucket);
  // A phase ends with a later epoch.
  if (state && (*state)->epoch <= above) state = co_await registry_.writable(*state, "");
  if (!state && state.error() == Errc::no_such_bucket) co_return UINT64_MAX;
  if (!state) co_return std::unexpected(state.error());
  uint64_t epoch = (*state)->epoch;
  if (epoch <= above) {
    Registry::Fill nothing = [](librados::ObjectWriteOperation&) {};
    const auto raised = co_await registry_.change_object(*state, std::move(nothing));
    if (!raised && raised.error() == Errc::no_such_bucket) co_return UINT64_MAX;
    // After a conflict another server has raised it.
    if (!raised && !(raised.error() == Errc::conditional_conflict)) co_return std::unexpected(raised.error());
    ++epoch;
  }
  VB_CO_TRY(co_await tell_(bucket));
  co_return epoch;
}

}  // namespace verbena::store::rados
