#include "store/local/committer.h"

#include <algorithm>

#include "base/hand_over.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/blob_writer.h"
#include "store/local/disk_times.h"

namespace verbena::store::local {
namespace {

metrics::Counter& commits() {
  static auto& counter = metrics::counter("verbena_store_commits_total", "Index changes committed");
  return counter;
}
metrics::Counter& groups() {
  static auto& counter = metrics::counter("verbena_store_commit_groups_total", "Groups of commits written at once");
  return counter;
}

metrics::Histogram& waits() {
  static auto& histogram =
      metrics::histogram("verbena_queue_wait_seconds", "Waits for what there is not enough of", {{"queue", "commit"}});
  return histogram;
}

bool is_durable(const Mutation& mutation) {
  return mutation.bucket == nullptr || mutation.bucket->durability.load(std::memory_order_acquire) == Durability::sync;
}

}  // namespace

Committer::Committer(Index& index, Volumes& volumes, Garbage& garbage, Options options)
    : index_(index), volumes_(volumes), garbage_(garbage), options_(options) {
  queues_[1].durable = false;
  waits();
}

void Committer::start() {
  for (CommitQueue& queue : queues_) queue.thread = std::thread(&Committer::loop, this, std::ref(queue));
}

void Committer::stop() {
  // The written-behind queue first: it may hand work to the durable one.
  for (CommitQueue* queue : {&queues_[1], &queues_[0]}) {
    {
      std::lock_guard lock(queue->mutex);
      queue->stopping = true;
      queue->wake.notify_all();
    }
    if (queue->thread.joinable()) queue->thread.join();
  }
}

Task<Result<void>> Committer::submit(Mutation mutation) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto initiate = [this, executor](auto handler, Mutation work) {
    submit(std::move(work), executor, std::move(handler));
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(mutation));
}

void Committer::submit(Mutation mutation, boost::asio::any_io_executor executor, Committed done) {
  auto post = [executor = std::move(executor), done = std::move(done)](const Result<void>& result) mutable {
    boost::asio::post(executor, [done = std::move(done), result, given = HandOver()]() mutable {
      given.taken();
      done(result);
    });
  };
  enqueue({std::move(mutation), std::move(post), {}, ticks()});
}

void Committer::enqueue(Pending pending) {
  CommitQueue& queue = queues_[is_durable(pending.mutation) ? 0 : 1];
  Error refusal{Errc::slow_down, 0, "commit queue is full"};
  {
    std::lock_guard lock(queue.mutex);
    if (queue.stopping) {
      refusal = {Errc::closed, 0, "store is closed"};
    } else if (queue.waiting.size() < options_.queue_max) {
      queue.waiting.push_back(std::move(pending));
      queue.wake.notify_one();
      return;
    }
  }
  garbage_.reclaim(std::move(pending.mutation.runs));
  pending.done(std::unexpected(refusal));
}

void Committer::loop(CommitQueue& queue) {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.wake.wait(lock, [&] { return queue.stopping || !queue.waiting.empty(); });
    if (queue.waiting.empty()) return;
    std::vector<Pending> group;
    while (!queue.waiting.empty() && group.size() < options_.group_max) {
      group.push_back(std::move(queue.waiting.front()));
      queue.waiting.pop_front();
    }
    lock.unlock();
    process(queue, std::move(group));
    lock.lock();
  }
}

void Committer::process(CommitQueue& queue, std::vector<Pending> group) {
  for (const Pending& pending : group) waits().observe_since(pending.queued);
  if (queue.durable) sync_data(group);
  refuse_without_space(group);
  write_index(queue, group);
  hand_over(group);
  for (Pending& pending : group) {
    // Only a refused mutation still has its runs.
    garbage_.reclaim(std::move(pending.mutation.runs));
    // What the closures hold goes before the caller hears: it may end the store next.
    pending.mutation = {};
    pending.done(pending.outcome);
  }
}

// A bucket that has become durable meanwhile gets what it promises. One that has become a `memory` bucket must not have
// its keys changed by both queues at a time: what one of them takes back, the other may have replaced.
void Committer::hand_over(std::vector<Pending>& group) {
  std::erase_if(group, [&](Pending& pending) {
    if (!pending.other_queue) return false;
    pending.other_queue = false;
    enqueue(std::move(pending));
    return true;
  });
}

void Committer::sync_data(std::vector<Pending>& group) {
  for (Pending& pending : group) {
    for (const Run& run : pending.mutation.runs) {
      // Volume::sync() is free when the group's first member has paid for all.
      pending.outcome = run.volume->sync();
      if (!pending.outcome) break;
    }
  }
}

void Committer::refuse_without_space(std::vector<Pending>& group) {
  bool asks = std::any_of(group.begin(), group.end(), [](const Pending& p) { return p.mutation.takes_space; });
  if (!asks) return;
  auto space = volumes_.has_space();
  if (space && *space) return;
  for (Pending& pending : group) {
    if (pending.outcome && pending.mutation.takes_space) {
      pending.outcome = fail(Errc::insufficient_storage, "commit: too little free space left");
    }
  }
}

Result<void> Committer::recover_index() {
  if (index_.failed()) {
    if (auto recovered = index_.recover(); !recovered) {
      log::error("store: the index takes no writes: {}", describe(recovered.error()));
      return recovered;
    }
  }
  garbage_.reclaim(std::exchange(limbo_, {}));
  return {};
}

// The members of the group that hold, in the batch.
std::vector<size_t> Committer::apply(const CommitQueue& queue, std::vector<Pending>& group,
                                     IndexTransaction& transaction) {
  std::vector<size_t> applied;
  for (size_t i = 0; i < group.size(); ++i) {
    Pending& pending = group[i];
    if (!pending.outcome) continue;
    pending.other_queue = is_durable(pending.mutation) != queue.durable;
    if (pending.other_queue) continue;
    const size_t dead = transaction.dead_.size(), abandoned = transaction.abandoned_.size(),
                 effects = transaction.effects_.size();
    transaction.batch_.save();
    pending.outcome = pending.mutation.judge(transaction);
    if (pending.outcome) {
      if (pending.mutation.blob) add_blob(transaction.batch_, pending.mutation.blob->written());
      transaction.keep_count(pending.mutation.bucket);
      applied.push_back(i);
    } else {
      transaction.batch_.roll_back();
      transaction.forget_count();
      transaction.dead_.resize(dead);
      transaction.abandoned_.resize(abandoned);
      transaction.effects_.resize(effects);
    }
  }
  return applied;
}

void Committer::write_index(CommitQueue& queue, std::vector<Pending>& group) {
  std::unique_lock lock(index_mutex_);
  IndexTransaction transaction(index_, options_.next_id, options_.clock->now_us());
  Batch& batch = transaction.batch_;
  if (auto ready = recover_index(); !ready) return fail_all(group, {}, ready.error());
  const std::vector<size_t> applied = apply(queue, group, transaction);
  transaction.put_usage();
  Result<void> written;
  if (!batch.empty() && queue.durable) {
    written = index_.write_hidden(batch);
    lock.unlock();
    if (written) {
      const metrics::Timer timer(DiskTimes::get().log_sync);
      written = index_.make_durable(batch);
    }
    lock.lock();
  } else if (!batch.empty()) {
    written = index_.write(batch);
  }
  if (!written) return fail_all(group, applied, written.error());
  succeed(queue, group, applied, transaction);
}

// Effects are under the mutex: a bucket changes its queue between two groups of the other queue, not within one.
void Committer::succeed(CommitQueue& queue, std::vector<Pending>& group, const std::vector<size_t>& applied,
                        IndexTransaction& transaction) {
  for (size_t i : applied) {
    for (const Run& run : group[i].mutation.runs) volumes_.settle(run);
    group[i].mutation.runs.clear();
  }
  for (const auto& counted : transaction.usage_) {
    counted.bucket->count(counted.change);
    if (counted.completes) counted.bucket->set_uncounted(false);
  }
  for (auto& effect : transaction.effects_) effect();
  garbage_.add_dead(transaction.dead_, queue.durable);
  for (const uint64_t bucket : transaction.abandoned_) garbage_.add_removed_bucket(bucket);
  groups().add();
  commits().add(applied.size());
}

void Committer::fail_all(std::vector<Pending>& group, const std::vector<size_t>& applied, const Error& why) {
  // A crash now may bring the batch back, so the bytes that it names must stay until the index has moved past it.
  for (size_t i : applied) {
    auto& runs = group[i].mutation.runs;
    std::move(runs.begin(), runs.end(), std::back_inserter(limbo_));
    runs.clear();
  }
  for (Pending& pending : group) {
    if (pending.outcome) pending.outcome = std::unexpected(why);
  }
  if (!applied.empty()) (void)recover_index();
}

}  // namespace verbena::store::local
