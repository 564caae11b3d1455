#include "store/rados/under_way.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "store/rados/change.h"

namespace verbena::store::rados {
namespace {

constexpr std::chrono::seconds end_again_after{5};
constexpr int forbid_attempts_max = 20;

}  // namespace

Task<Result<void>> UnderWay::before(Making& making, Coming coming) {
  const auto self = shared_from_this();
  if (!making.charge) {
    making.charge = charges_.take(coming.owner);
    if (!making.charge || marks_.of(coming.name) >= Marks::of_bucket_max) {
      co_return fail(Errc::slow_down, "rados: too many changes of buckets at once");
    }
  }
  Mark& mark = making.mark;
  if (mark.change == 0 || mark.bucket != coming.bucket) mark.change = random_number();
  mark.bucket = coming.bucket;
  mark.epoch = coming.epoch;
  mark.name = std::move(coming.name);
  // Before anybody is told: who begins to watch after that asks for it.
  if (!marks_.put(mark, deadline_in(mark_lasts_))) co_return fail(Errc::slow_down, "rados: too many marks");
  making.told = true;
  Notice notice{.kind = Notice::Kind::coming, .mark = mark, .renames = coming.renames};
  const auto told = co_await helpers_.tell(std::move(notice));
  // Who was told of it is told of no end, which would take as long again: marks end by themselves.
  if (!told || !helpers_.fresh()) {
    making.told = false;
    co_return fail(Errc::service_unavailable, "Nothing was changed: a server of the cluster did not take note.");
  }
  co_return Result<void>{};
}

Task<Result<void>> UnderWay::after(Making& making, Result<void> done) {
  const auto self = shared_from_this();
  if (!making.told) co_return done;
  // It may still be made: it is over when that has become impossible, which this server sees to first.
  if (making.unsure) {
    marks_.postpone(making.mark.change, SteadyClock::now());
    co_return done;
  }
  making.told = false;
  Notice notice{.kind = Notice::Kind::over, .mark = making.mark};
  const auto told = co_await helpers_.tell(std::move(notice));
  co_return done ? told : done;
}

// In this order. Coming: who has found the bucket without a mark has what he keeps by a number of before. Over: who
// finds it without a mark reads what it is now, by a number of after.
Task<Result<void>> UnderWay::hear(Notice notice) {
  const auto self = shared_from_this();
  if (notice.kind == Notice::Kind::coming) {
    if (!marks_.put(notice.mark, deadline_in(mark_lasts_))) co_return fail(Errc::limit_exceeded, "rados: marks");
    if (notice.renames) helpers_.forget_kept(notice.mark.name);
    helpers_.on_change();
    co_return Result<void>{};
  }
  std::string name = notice.mark.name;
  VB_CO_TRY(co_await helpers_.read(std::move(name)));
  helpers_.on_change();
  marks_.end(notice.mark.change);
  co_return Result<void>{};
}

bool UnderWay::take(const std::vector<Mark>& marks) {
  const auto until = deadline_in(mark_lasts_);
  const bool fit = std::ranges::all_of(marks, [&](const Mark& mark) { return marks_.put(mark, until); });
  if (!marks.empty()) helpers_.on_change();
  return fit;
}

Task<Result<void>> UnderWay::settle(std::string name) {
  const auto self = shared_from_this();
  static auto& asked = metrics::counter("verbena_rados_marked_total",
                                        "Calls that found their bucket being changed, and had it read in the cluster");
  asked.add();
  const uint64_t came = marks_.next_turn();
  KeyLocks::Name lock(0, name);
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await readings_.take(std::move(lock)));
  if (marks_.was_read(name, came)) co_return Result<void>{};
  // On the engine's thread, as all that is read anew.
  auto reading = read_once(std::move(name));
  co_return co_await boost::asio::co_spawn(io_, std::move(reading), boost::asio::use_awaitable);
}

// Those that wait share a reading, as of one bucket: no bucket's name is empty.
Task<Result<void>> UnderWay::settle_all() { return settle({}); }

Task<Result<void>> UnderWay::read_once(std::string name) {
  const uint64_t begun = marks_.next_turn();
  std::string copy = name;
  auto reading = name.empty() ? helpers_.read_all() : helpers_.read(std::move(copy));
  VB_CO_TRY(co_await std::move(reading));
  marks_.note_read(name, begun);
  co_return Result<void>{};
}

void UnderWay::look() {
  if (ending_ || stopping_ || marks_.over(SteadyClock::now()).empty()) return;
  ending_ = true;
  boost::asio::co_spawn(io_, end_old(), boost::asio::detached);
}

Task<> UnderWay::end_old() {
  const auto self = shared_from_this();
  for (const Mark& mark : marks_.over(SteadyClock::now())) {
    if (stopping_) break;
    if (const auto ended = co_await end_one(mark); !ended) {
      if (stopping_) break;
      log::warn("rados: bucket {}: a change is not finished yet: {}", log::printable(mark.name),
                describe(ended.error()));
      marks_.postpone(mark.change, deadline_in(end_again_after));
    }
  }
  ending_ = false;
}

Task<Result<void>> UnderWay::end_one(Mark mark) {
  static auto& left = metrics::counter("verbena_rados_changes_left_total",
                                       "Changes of buckets whose end was not reported: they were made impossible");
  VB_CO_TRY(co_await forbid(mark));
  if (stopping_) co_return fail(Errc::service_unavailable, "rados: the server is being stopped");
  std::string name = mark.name;
  VB_CO_TRY(co_await helpers_.read(std::move(name)));
  helpers_.on_change();
  marks_.end(mark.change);
  left.add();
  Notice notice{.kind = Notice::Kind::over, .mark = std::move(mark)};
  (void)co_await helpers_.tell(std::move(notice));  // who does not hear it finds out by itself
  co_return Result<void>{};
}

// The change was made, or it cannot be made any more: whoever makes it compares the epoch, or the row that allows a new
// bucket its name.
Task<Result<void>> UnderWay::forbid(Mark mark) {
  if (mark.epoch == 0) {
    const auto forbidden = co_await registry_.forbid_name(mark.bucket);
    if (!forbidden) co_return std::unexpected(forbidden.error());
    co_return Result<void>{};
  }
  for (int attempt = 0; attempt < forbid_attempts_max; ++attempt) {
    if (stopping_) co_return fail(Errc::service_unavailable, "rados: the server is being stopped");
    auto state = co_await registry_.load(mark.bucket);
    if (state && (*state)->epoch <= mark.epoch) state = co_await registry_.writable(*state, "");
    if (!state && state.error() == Errc::no_such_bucket) co_return Result<void>{};
    if (!state) co_return std::unexpected(state.error());
    if ((*state)->epoch > mark.epoch) co_return Result<void>{};
    Registry::Fill nothing = [](librados::ObjectWriteOperation&) {};
    const auto changed = co_await registry_.change(*state, std::move(nothing));
    if (!changed && !(changed.error() == Errc::conditional_conflict)) co_return std::unexpected(changed.error());
  }
  co_return fail(Errc::slow_down, "rados: others change the bucket all the time");
}

}  // namespace verbena::store::rados
