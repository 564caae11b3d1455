#include "store/rados/batcher.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

#include "base/metrics.h"
#include "store/rados/layout.h"

namespace verbena::store::rados {
namespace {

constexpr size_t batch_max = 128;
constexpr size_t batch_bytes_max = 2 * MiB;
constexpr int sends_max = 3;  // of a call that is not answered in time

}  // namespace

Task<Batcher::Outcome> Batcher::commit(std::string tablet, std::string epoch, Part part, bool alone) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto initiate = [this, executor](auto handler, std::string object, Waiting waiting) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    waiting.done = [executor, shared](Outcome outcome) {
      boost::asio::post(executor, [shared, outcome]() mutable { (*shared)(outcome); });
    };
    add(object, std::move(waiting));
  };
  Waiting waiting{std::move(epoch), std::move(part), alone, nullptr};
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Outcome)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(tablet), std::move(waiting));
}

void Batcher::add(const std::string& tablet, Waiting waiting) {
  const std::lock_guard lock(mutex_);
  const auto [queue, is_new] = queues_.try_emplace(tablet);
  queue->second.push_back(std::move(waiting));
  if (is_new) boost::asio::co_spawn(io_, drain(tablet), boost::asio::detached);
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
  if (batch.empty()) queues_.erase(queue);
  return batch;
}

Task<Batcher::Outcome> Batcher::send(std::string tablet, const std::vector<Waiting>& batch) {
  static auto& commits = metrics::counter("verbena_rados_commits_total", "Changes of keys");
  static auto& batches = metrics::counter("verbena_rados_commit_calls_total", "Calls that carried changes of keys");
  commits.add(batch.size());
  Outcome outcome;
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
      guards.emplace(part.guard_row, std::pair(to_buffer(part.guard_seen), LIBRADOS_CMPXATTR_OP_EQ));
      for (const auto& [row, value] : part.sets) sets.emplace(row, to_buffer(value));
      gone.insert(part.gone.begin(), part.gone.end());
      bytes += part.bytes;
    }
    op.omap_cmp(guards, nullptr);
    if (!gone.empty()) op.omap_rm_keys(gone);
    if (!sets.empty()) op.omap_set(sets);
    outcome.code = co_await cluster_.write(Cluster::Pool::index, tablet, std::move(op), bytes);
    // What was not answered may still happen. The same call again settles it: its guards hold only once.
    if (outcome.code != -ETIMEDOUT) break;
    outcome.unsure = true;
  }
  co_return outcome;
}

Task<> Batcher::drain(std::string tablet) {
  for (;;) {
    const std::vector<Waiting> batch = take(tablet);
    if (batch.empty()) co_return;
    const Outcome outcome = co_await send(tablet, batch);
    for (const Waiting& waiting : batch) waiting.done(outcome);
  }
}

}  // namespace verbena::store::rados
