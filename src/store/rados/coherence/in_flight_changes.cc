#include "store/rados/coherence/in_flight_changes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "store/rados/rows/change.h"

namespace verbena::store::rados {
namespace {

constexpr std::chrono::seconds end_again_after{5};
constexpr int forbid_attempts_max = 20;

}  // namespace

Task<Result<void>> InFlightChanges::before(OwnChange& own, Planned planned) {
  const auto self = shared_from_this();
  if (!own.charge) {
    own.charge = charges_.take(planned.owner);
    if (!own.charge || intents_.of(planned.name) >= Intents::of_bucket_max) {
      co_return fail(Errc::slow_down, "rados: too many changes of buckets at once");
    }
  }
  Intent& intent = own.intent;
  if (intent.change == 0 || intent.bucket != planned.bucket) intent.change = random_number();
  intent.bucket = planned.bucket;
  intent.epoch = planned.epoch;
  intent.name = std::move(planned.name);
  // Recorded before the others are notified: a server that joins later asks for it.
  if (!intents_.put(intent, deadline_in(intent_lasts_))) co_return fail(Errc::slow_down, "rados: too many intents");
  own.told = true;
  Notice notice{.kind = Notice::Kind::intent, .intent = intent, .renames = planned.renames};
  const auto told = co_await helpers_.tell(std::move(notice));
  // Servers that recorded the intent are not notified of its end, which would take as long again: intents expire.
  if (!told || !helpers_.fresh()) {
    own.told = false;
    co_return fail(Errc::service_unavailable,
                   "Nothing was changed: a server of the cluster did not confirm the announcement.");
  }
  co_return Result<void>{};
}

Task<Result<void>> InFlightChanges::after(OwnChange& own, Result<void> done) {
  const auto self = shared_from_this();
  if (!own.told) co_return done;
  // The change may still be made: the intent ends when that has become impossible, which this server ensures first.
  if (own.unsure) {
    intents_.postpone(own.intent.change, SteadyClock::now());
    co_return done;
  }
  own.told = false;
  Notice notice{.kind = Notice::Kind::over, .intent = own.intent};
  const auto told = co_await helpers_.tell(std::move(notice));
  co_return done ? told : done;
}

// The order matters. At an intent: a reader that found the bucket without one caches under an older AccessGeneration.
// At the end: a reader that finds the bucket without an intent reads the current state, under a newer generation.
Task<Result<void>> InFlightChanges::hear(Notice notice) {
  const auto self = shared_from_this();
  if (notice.kind == Notice::Kind::intent) {
    if (!intents_.put(notice.intent, deadline_in(intent_lasts_)))
      co_return fail(Errc::limit_exceeded, "rados: intents");
    if (notice.renames) helpers_.forget_kept(notice.intent.name);
    helpers_.on_change(notice.intent.name);
    co_return Result<void>{};
  }
  std::string name = notice.intent.name;
  VB_CO_TRY(co_await helpers_.read(std::move(name)));
  helpers_.on_change(notice.intent.name);
  intents_.end(notice.intent.change);
  co_return Result<void>{};
}

bool InFlightChanges::take(const std::vector<Intent>& intents) {
  const auto until = deadline_in(intent_lasts_);
  const bool fit = std::ranges::all_of(intents, [&](const Intent& intent) { return intents_.put(intent, until); });
  for (const Intent& intent : intents) helpers_.on_change(intent.name);
  return fit;
}

Task<Result<void>> InFlightChanges::settle(std::string name) {
  const auto self = shared_from_this();
  static auto& asked = metrics::counter("verbena_rados_in_flight_reads_total",
                                        "Calls that found their bucket being changed, and had it read in the cluster");
  asked.add();
  const uint64_t came = intents_.next_turn();
  KeyLocks::Name lock(0, name);
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await readings_.take(std::move(lock)));
  if (intents_.was_read(name, came)) co_return Result<void>{};
  // On the engine's thread, like all reloads.
  auto reading = read_once(std::move(name));
  co_return co_await boost::asio::co_spawn(io_, std::move(reading), boost::asio::use_awaitable);
}

// Waiters share one reload, as for one bucket: no bucket's name is empty.
Task<Result<void>> InFlightChanges::settle_all() { return settle({}); }

Task<Result<void>> InFlightChanges::read_once(std::string name) {
  const uint64_t begun = intents_.next_turn();
  std::string copy = name;
  auto reading = name.empty() ? helpers_.read_all() : helpers_.read(std::move(copy));
  VB_CO_TRY(co_await std::move(reading));
  intents_.note_read(name, begun);
  co_return Result<void>{};
}

void InFlightChanges::look() {
  if (ending_ || stopping_ || !registry_.cluster().may_write() || intents_.over(SteadyClock::now()).empty()) return;
  ending_ = true;
  boost::asio::co_spawn(io_, end_old(), boost::asio::detached);
}

Task<> InFlightChanges::end_old() {
  const auto self = shared_from_this();
  for (const Intent& intent : intents_.over(SteadyClock::now())) {
    if (stopping_) break;
    if (const auto ended = co_await end_one(intent); !ended) {
      if (stopping_) break;
      log::warn("rados: bucket {}: a change is not finished yet: {}", log::printable(intent.name),
                describe(ended.error()));
      intents_.postpone(intent.change, deadline_in(end_again_after));
    }
  }
  ending_ = false;
}

Task<Result<void>> InFlightChanges::end_one(Intent intent) {
  static auto& left = metrics::counter("verbena_rados_changes_left_total",
                                       "Changes of buckets that were revoked because their end was not reported");
  VB_CO_TRY(co_await forbid(intent));
  if (stopping_) co_return fail(Errc::service_unavailable, "rados: the server is being stopped");
  std::string name = intent.name;
  VB_CO_TRY(co_await helpers_.read(std::move(name)));
  helpers_.on_change(intent.name);
  intents_.end(intent.change);
  left.add();
  Notice notice{.kind = Notice::Kind::over, .intent = std::move(intent)};
  (void)co_await helpers_.tell(std::move(notice));  // servers that miss it find out by themselves
  co_return Result<void>{};
}

// The change was made, or cannot be made any more: its call compares the epoch, or the row that allows naming a new
// bucket.
Task<Result<void>> InFlightChanges::forbid(Intent intent) {
  if (intent.epoch == 0) {
    const auto forbidden = co_await registry_.forbid_name(intent.bucket);
    if (!forbidden) co_return std::unexpected(forbidden.error());
    co_return Result<void>{};
  }
  for (int attempt = 0; attempt < forbid_attempts_max; ++attempt) {
    if (stopping_) co_return fail(Errc::service_unavailable, "rados: the server is being stopped");
    auto state = co_await registry_.load(intent.bucket);
    if (state && (*state)->epoch <= intent.epoch) state = co_await registry_.writable(*state, "");
    if (!state && state.error() == Errc::no_such_bucket) co_return Result<void>{};
    if (!state) co_return std::unexpected(state.error());
    if ((*state)->epoch > intent.epoch) co_return Result<void>{};
    Registry::Fill nothing = [](librados::ObjectWriteOperation&) {};
    const auto changed = co_await registry_.change(*state, std::move(nothing));
    if (!changed && !(changed.error() == Errc::conditional_conflict)) co_return std::unexpected(changed.error());
  }
  co_return fail(Errc::slow_down, "rados: the bucket is changed too often");
}

}  // namespace verbena::store::rados
