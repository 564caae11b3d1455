#include "store/rados/batcher.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/usage.h"
#include "store/rados/layout.h"

namespace verbena::store::rados {
namespace {

constexpr size_t batch_max = 128;
constexpr size_t batch_bytes_max = 2 * MiB;
constexpr int sends_max = 3;           // of a call that is not answered in time
constexpr int tally_failures_max = 2;  // calls that lost a race, until it is looked whether that of the tally was lost

}  // namespace

Task<Batcher::Outcome> Batcher::commit(Target target, Part part, bool alone) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto initiate = [this, executor](auto handler, Target to, Waiting waiting) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    waiting.done = [executor, shared](Outcome outcome) {
      boost::asio::post(executor, [shared, outcome]() mutable { (*shared)(outcome); });
    };
    add(to, std::move(waiting));
  };
  Waiting waiting{target.epoch, std::move(part), alone, nullptr};
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Outcome)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(target), std::move(waiting));
}

void Batcher::add(const Target& target, Waiting waiting) {
  const std::lock_guard lock(mutex_);
  auto& tally = tallies_[target.tablet];
  if (!tally) tally = std::make_shared<Tally>(target.bucket);  // of a new process: nothing, and no row
  const auto [queue, is_new] = queues_.try_emplace(target.tablet);
  queue->second.push_back(std::move(waiting));
  if (!is_new) return;
  // Never from in here, where this is the thread of `io`: it takes the mutex.
  boost::asio::post(
      io_, [this, tablet = target.tablet] { boost::asio::co_spawn(io_, drain(tablet), boost::asio::detached); });
}

void Batcher::recount() {
  std::map<std::string, std::shared_ptr<Tally>> all;
  {
    const std::lock_guard lock(mutex_);
    all = tallies_;
  }
  for (const auto& [tablet, tally] : all) {
    tally->stale = true;
    add({tablet, tally->bucket}, {"", {}, /*alone=*/true, [](Outcome) {}});
  }
}

std::shared_ptr<Batcher::Tally> Batcher::tally_of(const std::string& tablet) {
  const std::lock_guard lock(mutex_);
  return tallies_.at(tablet);
}

// Those of the first one's epoch; nothing: the queue is gone.
std::vector<Batcher::Waiting> Batcher::take(const std::string& tablet) {
  std::vector<Waiting> batch;
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(tablet);
  size_t bytes = 0;
  while (!queue->second.empty()) {
    Waiting& next = queue->second.front();
    const bool first = batch.empty();
    bytes += next.part.bytes;
    if (!first && (next.alone || next.epoch != batch.front().epoch || bytes > batch_bytes_max)) break;
    batch.push_back(std::move(next));
    queue->second.pop_front();
    if (batch.back().alone || batch.size() == batch_max) break;
  }
  if (!batch.empty()) return batch;
  queues_.erase(queue);
  if (const auto tally = tallies_.find(tablet); tally->second->gone) tallies_.erase(tally);
  return batch;
}

// What was counted and is not there was not, or has been taken over as what a server counted that is gone.
Task<int> Batcher::read(std::string tablet, Tally& tally) {
  tally.stale = false;
  struct Reply {
    std::map<std::string, Buffer> rows;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  const std::string name = usage_row(incarnation_);
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys({name}, &reply->rows, &reply->code);
  const int code = co_await cluster_.read(Cluster::Pool::index, std::move(tablet), std::move(op), reply);
  if (code < 0 && code != -ENOENT) {
    tally.stale = true;
    co_return code;
  }
  const auto found = reply->rows.find(name);
  std::string row = found == reply->rows.end() ? "" : to_text(found->second);
  const auto counted = row.empty() ? Result<Usage>(Usage()) : decode_usage(row);
  if (!counted) {
    tally.stale = true;
    co_return -EIO;
  }
  const Usage change = *counted - tally.counted;
  tally.row = std::move(row);
  tally.counted = *counted;
  tally.failures = 0;
  if (change != Usage()) count_(tally.bucket, change);
  co_return 0;
}

Task<Batcher::Outcome> Batcher::send(std::string tablet, const std::vector<Waiting>& batch, Tally& tally) {
  static auto& commits = metrics::counter("verbena_rados_commits_total", "Changes of keys");
  static auto& batches = metrics::counter("verbena_rados_commit_calls_total", "Calls that carried changes of keys");
  Outcome outcome;
  Usage counted;
  for (const Waiting& waiting : batch) counted += waiting.part.counted;
  const bool counts = counted != Usage();
  // Doubted once more while it was read, it is as good as any: the guard says whether the row is still that one.
  if (tally.stale) outcome.code = co_await read(tablet, tally);
  if (batch.front().part.guards.empty() || (counts && outcome.code < 0)) co_return outcome;
  outcome.code = 0;
  commits.add(batch.size());
  const std::string row = counts ? encode(tally.counted + counted) : std::string();
  for (int attempt = 0; attempt < sends_max; ++attempt) {
    batches.add();
    librados::ObjectWriteOperation op;
    op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(batch.front().epoch));
    std::map<std::string, std::pair<Buffer, int>> guards;
    std::map<std::string, Buffer> sets;
    std::set<std::string> gone;
    size_t bytes = 0;
    for (const Waiting& waiting : batch) {
      const Part& part = waiting.part;
      for (const auto& [guard, seen] : part.guards) {
        guards.emplace(guard, std::pair(to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ));
      }
      for (const auto& [name, value] : part.sets) sets.emplace(name, to_buffer(value));
      gone.insert(part.gone.begin(), part.gone.end());
      bytes += part.bytes;
    }
    if (counts) {
      guards.emplace(usage_row(incarnation_), std::pair(to_buffer(tally.row), LIBRADOS_CMPXATTR_OP_EQ));
      sets.emplace(usage_row(incarnation_), to_buffer(row));
    }
    op.omap_cmp(guards, nullptr);
    if (!gone.empty()) op.omap_rm_keys(gone);
    if (!sets.empty()) op.omap_set(sets);
    outcome.code = co_await cluster_.write(Cluster::Pool::index, tablet, std::move(op), bytes);
    // What was not answered may still happen. The same call again settles it: its guards hold only once.
    if (outcome.code != -ETIMEDOUT) break;
    outcome.unsure = true;
  }
  if (!counts) co_return outcome;
  if (outcome.code >= 0) {
    tally.counted += counted;
    tally.row = row;
    tally.failures = 0;
    count_(tally.bucket, counted);
  } else if (outcome.unsure) {
    (void)co_await read(tablet, tally);
  } else if (++tally.failures >= tally_failures_max) {
    tally.stale = true;
  }
  co_return outcome;
}

Task<> Batcher::drain(std::string tablet) {
  const auto tally = tally_of(tablet);
  for (;;) {
    const std::vector<Waiting> batch = take(tablet);
    if (batch.empty()) co_return;
    // Whoever waits is told in any case, and the next ones are sent.
    Outcome outcome{.code = -EIO, .unsure = true};
    try {
      outcome = co_await send(tablet, batch, *tally);
    } catch (const std::exception& thrown) {
      log::error("rados: a change threw: {}", thrown.what());
      tally->stale = true;
    }
    tally->gone = outcome.code == -ENOENT;
    for (const Waiting& waiting : batch) waiting.done(outcome);
  }
}

}  // namespace verbena::store::rados
