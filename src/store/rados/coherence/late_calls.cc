#include "store/rados/coherence/late_calls.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>

#include "base/log.h"

namespace verbena::store::rados {
namespace {

constexpr std::chrono::milliseconds bar_rest_min{5}, bar_rest_max{100};          // doubled each time
constexpr std::chrono::milliseconds fail_rest_min{1'000}, fail_rest_max{4'000};  // likewise
// Each raise makes all changes of the bucket under way lose their race once. Those that wait look twice in this time.
constexpr std::chrono::milliseconds raise_rest{200};

}  // namespace

Task<bool> LateCalls::bar(uint64_t bucket, uint64_t epoch) {
  add(bucket, epoch);
  const auto until = deadline_in(wait_max);
  for (auto rest = bar_rest_min; !is_barred(bucket, epoch); rest = std::min(2 * rest, bar_rest_max)) {
    if (stopping_ || SteadyClock::now() > until) co_return false;
    co_await pause(rest);
  }
  co_return true;
}

void LateCalls::add(uint64_t bucket, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const auto [wanted, is_new] = wanted_.try_emplace(bucket, Wanted{bucket, epoch});
  wanted->second.epoch = std::max(wanted->second.epoch, epoch);
  if (!is_new) return;
  queue_.push_back(bucket);
  if (tasks_ == runs_max) return;
  ++tasks_;
  // Posted, because on the thread of `io` it would run here and take the mutex.
  boost::asio::post(io_, [this] { boost::asio::co_spawn(io_, work(), boost::asio::detached); });
}

bool LateCalls::is_barred(uint64_t bucket, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  const auto wanted = wanted_.find(bucket);
  return wanted == wanted_.end() || wanted->second.known > epoch;
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
  return wanted_.at(bucket);
}

// Returns how long to rest before the bucket is worked at again.
std::chrono::milliseconds LateCalls::note(uint64_t bucket, const Result<uint64_t>& known) {
  const std::lock_guard lock(mutex_);
  Wanted& wanted = wanted_.at(bucket);
  if (!known) return std::min(fail_rest_min * (1 << std::min(wanted.failures++, 10u)), fail_rest_max);
  wanted.failures = 0;
  wanted.known = std::max(wanted.known, *known);
  return raise_rest;
}

// If another late call was added that a later epoch guards, it is done again.
void LateCalls::end(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  const auto wanted = wanted_.find(bucket);
  if (wanted->second.epoch < wanted->second.known) {
    wanted_.erase(wanted);
  } else {
    queue_.push_back(bucket);
  }
}

Task<> LateCalls::work() {
  while (const auto next = take()) {
    const auto known = co_await try_raise(next->bucket, next->epoch);
    if (!known) {
      log::debug("rados: bucket {}: a late call is not barred yet: {}", next->bucket, describe(known.error()));
    }
    auto rest = note(next->bucket, known);
    for (; rest > raise_rest.zero() && !stopping_; rest -= raise_rest) co_await pause(raise_rest);
    end(next->bucket);
  }
}

// A task that ended by an exception would leave its bucket to none.
Task<Result<uint64_t>> LateCalls::try_raise(uint64_t bucket, uint64_t above) {
  try {
    co_return co_await raise(bucket, above);
  } catch (const std::exception& thrown) {
    log::warn("rados: bucket {}: {}", bucket, thrown.what());
  }
  co_return fail(Errc::internal, "rados: a late call");
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
