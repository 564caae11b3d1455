#include "store/rados/rows/batcher.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/usage.h"
#include "store/rados/cluster/fate.h"
#include "store/rados/cluster/layout.h"
#include "store/rados/rows/change.h"

namespace verbena::store::rados {
namespace {

constexpr size_t batch_max = 128;
constexpr size_t batch_bytes_max = 2 * MiB;
constexpr int sends_max = 3;  // attempts of a call that is not answered in time

// A comparison failed, with the tablet as it is.
bool has_compared(int code) { return code == -ECANCELED || code == -ENODATA; }

// Refused before it was sent (Cluster::write), or for want of space, which is found out after all comparisons.
bool is_refused(int code) { return code == -EROFS || code == -EBUSY || code == -ENOSPC || code == -EDQUOT; }

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
  if (!tally) tally = std::make_shared<Tally>(target.bucket);
  const auto [queue, is_new] = queues_.try_emplace(target.tablet);
  queue->second.push_back(std::move(waiting));
  if (!is_new) return;
  // Posted, because on the thread of `io` it would run here and take the mutex.
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

Usage Batcher::counted_in(const std::string& tablet) {
  const std::lock_guard lock(mutex_);
  const auto tally = tallies_.find(tablet);
  return tally == tallies_.end() ? Usage() : tally->second->counted;
}

std::shared_ptr<Batcher::Tally> Batcher::tally_of(const std::string& tablet) {
  const std::lock_guard lock(mutex_);
  return tallies_.at(tablet);
}

// The waiting changes with the first one's epoch and one fence; empty: the queue is gone.
std::vector<Batcher::Waiting> Batcher::take(const std::string& tablet) {
  std::vector<Waiting> batch;
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(tablet);
  size_t bytes = 0;
  std::optional<std::string> fence;
  while (!queue->second.empty()) {
    Waiting& next = queue->second.front();
    const bool first = batch.empty();
    bytes += next.part.bytes;
    if (!first && (next.alone || next.epoch != batch.front().epoch || bytes > batch_bytes_max)) break;
    if (fence && next.part.fence && *fence != *next.part.fence) break;
    if (!fence) fence = next.part.fence;
    batch.push_back(std::move(next));
    queue->second.pop_front();
    if (batch.back().alone || batch.size() == batch_max) break;
  }
  if (!batch.empty()) return batch;
  queues_.erase(queue);
  if (const auto tally = tallies_.find(tablet); tally->second->gone) tallies_.erase(tally);
  return batch;
}

// Counts missing in the row were not stored, or were taken over as those of a dead server.
Task<int> Batcher::read(std::string tablet, Tally& tally) {
  tally.stale = false;
  struct Reply {
    std::map<std::string, Buffer> rows;
    int code = 0;
    std::string take(const std::string& name) {
      const auto found = rows.find(name);
      return found == rows.end() ? "" : to_text(found->second);
    }
  };
  auto reply = std::make_shared<Reply>();
  const std::string name = usage_row(incarnation_), receipt = receipt_row(incarnation_);
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys({name, receipt}, &reply->rows, &reply->code);
  const int code = co_await cluster_.read(Cluster::Pool::index, std::move(tablet), std::move(op), reply);
  if (code < 0) {  // of a tablet that is gone, what was counted is in another one
    tally.stale = true;
    co_return code;
  }
  std::string row = reply->take(name);
  const auto counted = row.empty() ? Result<Usage>(Usage()) : decode_usage(row);
  if (!counted) {
    tally.stale = true;
    co_return -EIO;
  }
  const Usage change = *counted - tally.counted;
  tally.row = std::move(row);
  tally.counted = *counted;
  tally.receipt = reply->take(receipt);
  if (change != Usage()) count_(tally.bucket, change);
  co_return 0;
}

// Written before this process's first call on a tablet, and again after its receipt was swept: so a missing receipt
// always means that it was swept, never that no call was made.
Task<int> Batcher::begin_receipt(std::string tablet, std::string epoch, Tally& tally) {
  const std::string name = receipt_row(incarnation_), receipt = keys::number(random_number());
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(epoch));
  const std::map<std::string, std::pair<Buffer, int>> none = {{name, {Buffer(), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(none, nullptr);
  const std::map<std::string, Buffer> set = {{name, to_buffer(receipt)}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Cluster::Pool::index, std::move(tablet), std::move(op));
  if (code >= 0) {
    tally.receipt = receipt;
  } else {
    tally.stale = true;  // it may have been written all the same
  }
  co_return code;
}

// The contents of a call, the same for all attempts.
struct Batcher::Call {
  const std::vector<Waiting>& batch;
  std::string usage_name, usage_seen, usage;  // empty: no usage changes
  std::string receipt_name, receipt;
};

librados::ObjectWriteOperation Batcher::make_op(const Call& call, size_t& bytes) {
  librados::ObjectWriteOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(call.batch.front().epoch));
  std::map<std::string, std::pair<Buffer, int>> expected;
  std::map<std::string, Buffer> sets = {{call.receipt_name, to_buffer(call.receipt)}};
  std::set<std::string> gone;
  bytes = 0;
  const auto compare = [&expected](const std::string& row, const std::string& seen) {
    expected.emplace(row, std::pair(to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ));
  };
  for (const Waiting& waiting : call.batch) {
    const Part& part = waiting.part;
    for (const auto& [row, seen] : part.version_tokens) compare(row, seen);
    if (part.fence) compare(fence_row, *part.fence);
    for (const auto& [name, value] : part.sets) sets.emplace(name, to_buffer(value));
    gone.insert(part.gone.begin(), part.gone.end());
    bytes += part.bytes;
  }
  if (!call.usage.empty()) {
    compare(call.usage_name, call.usage_seen);
    sets.emplace(call.usage_name, to_buffer(call.usage));
  }
  op.omap_cmp(expected, nullptr);
  if (!gone.empty()) op.omap_rm_keys(gone);
  op.omap_set(sets);
  return op;
}

Task<Batcher::Outcome> Batcher::send(std::string tablet, const std::vector<Waiting>& batch, Tally& tally) {
  static auto& commits = metrics::counter("verbena_rados_commits_total", "Changes of keys");
  static auto& batches = metrics::counter("verbena_rados_commit_calls_total", "Calls that carried changes of keys");
  Outcome outcome;
  // If doubted again while it was read, it may still be used: the call's comparison verifies the row.
  if (tally.stale) outcome.code = co_await read(tablet, tally);
  if (batch.front().part.version_tokens.empty() || outcome.code < 0) co_return outcome;
  if (tally.receipt.empty()) {
    std::string epoch = batch.front().epoch;
    outcome.code = co_await begin_receipt(tablet, std::move(epoch), tally);
    if (outcome.code < 0) co_return outcome;  // and none of the changes was sent
  }
  commits.add(batch.size());
  Usage counted;
  for (const Waiting& waiting : batch) counted += waiting.part.counted;
  const bool counts = counted != Usage();
  const uint64_t token = random_number();
  const Call call{.batch = batch,
                  .usage_name = usage_row(incarnation_),
                  .usage_seen = tally.row,
                  .usage = counts ? encode(tally.counted + counted) : std::string(),
                  .receipt_name = receipt_row(incarnation_),
                  .receipt = keys::number(token)};
  for (int attempt = 0; attempt < sends_max; ++attempt) {
    batches.add();
    size_t bytes = 0;
    librados::ObjectWriteOperation op = make_op(call, bytes);
    outcome.code = co_await cluster_.write(Cluster::Pool::index, tablet, std::move(op), bytes);
    if (outcome.code >= 0 || has_compared(outcome.code) || is_refused(outcome.code)) break;
    // librados may have sent the call before, so that it was made whatever this answer says: an OSD refuses a client on
    // the blocklist, or without the rights, before it looks whether it knows the call; and a tablet that was joined
    // with another one goes with its receipts.
    outcome.unsure = true;
    // An unanswered call may still be made. Repeating it decides: its version tokens match only once.
    if (outcome.code != -ETIMEDOUT) break;
  }
  if (outcome.code < 0) co_return co_await settle(std::move(tablet), tally, token, outcome);
  tally.receipt = call.receipt;
  outcome.unsure = false;
  if (!counts) co_return outcome;
  tally.counted += counted;
  tally.row = call.usage;
  count_(tally.bucket, counted);
  co_return outcome;
}

// A failed comparison may be caused by the call itself (fate.h). The first look at the row also corrects this process's
// count.
Task<Batcher::Outcome> Batcher::settle(std::string tablet, Tally& tally, uint64_t token, Outcome outcome) {
  if (!has_compared(outcome.code) && !outcome.unsure) co_return outcome;
  const std::string seen = tally.receipt;
  const int code = co_await read(std::move(tablet), tally);
  // Without a receipt the outcome is unknown: this server was declared dead and its receipt swept (tombstones.h).
  const Fate fate = code < 0 ? Fate::unknown : fate_of(tally.receipt, token, seen, /*list_max=*/1);
  if (fate == Fate::made) co_return Outcome{};
  // Without an answer it may still be made.
  if (fate == Fate::not_made && has_compared(outcome.code)) co_return Outcome{.code = -ECANCELED};
  outcome.unsure = true;
  co_return outcome;
}

Task<> Batcher::drain(std::string tablet) {
  const auto tally = tally_of(tablet);
  for (;;) {
    const std::vector<Waiting> batch = take(tablet);
    if (batch.empty()) co_return;
    // Answers waiting callers in any case, and sends the next calls.
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
