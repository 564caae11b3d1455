#include "store/local/committer.h"

#include <algorithm>
#include <iterator>

#include "base/handoff.h"
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
      metrics::histogram("verbena_queue_wait_seconds", "Waits for a limited resource", {{"queue", "commit"}});
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
  enqueue({std::move(mutation), std::move(done), std::move(executor)});
}

Result<void> Committer::try_submit(Mutation mutation, Committed& done) {
  Pending pending{std::move(mutation), std::move(done)};
  const auto queued = try_enqueue(pending);
  if (!queued) done = std::move(pending.done);
  return queued;
}

Result<void> Committer::try_enqueue(Pending& pending) {
  CommitQueue& queue = queues_[is_durable(pending.mutation) ? 0 : 1];
  const std::lock_guard lock(queue.mutex);
  if (queue.stopping) return fail(Errc::closed, "store is closed");
  if (queue.waiting.size() >= options_.queue_max) return fail(Errc::slow_down, "commit queue is full");
  // A member that says no more follow must not be delayed by others' batches.
  const bool closing = !queue.waiting.empty() && !queue.more_follow;
  queue.more_follow = queue.durable && pending.mutation.more_follow && !closing;
  queue.waiting.push_back(std::move(pending));
  if (queue.waiting.size() == queue.wanted || !queue.more_follow) queue.wake.notify_one();
  return {};
}

void Committer::enqueue(Pending pending) {
  const auto queued = try_enqueue(pending);
  if (queued) return;
  pending.outcome = queued;
  std::vector<Pending> refused;
  refused.push_back(std::move(pending));
  answer(std::move(refused));
}

void Committer::loop(CommitQueue& queue) {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.wanted = 1;
    queue.wake.wait(lock, [&] { return queue.stopping || !queue.waiting.empty(); });
    if (queue.waiting.empty()) return;
    lock.unlock();
    answer(process(queue));
    lock.lock();
  }
}

Committer::Group::Group(Committer& committer)
    : transaction(committer.index_, committer.options_.next_id, committer.options_.clock->now_us(), &committer.left_),
      until(SteadyClock::now() + committer.options_.gather_max) {}

// Takes waiting members, up to the group's size. False: none came, and the group is complete.
bool Committer::take(CommitQueue& queue, Group& group) {
  std::unique_lock lock(queue.mutex);
  if (!group.open || group.members.size() >= options_.group_max) return false;
  queue.wanted = options_.piece_size;
  const bool in_time = queue.wake.wait_until(lock, group.until, [&] {
    return queue.stopping || !queue.more_follow || queue.waiting.size() >= options_.piece_size;
  });
  group.open = in_time && queue.more_follow;
  if (!in_time) queue.more_follow = false;  // the hint was wrong, or too late
  if (queue.waiting.empty()) return false;
  return choose(queue, group);
}

// Moves waiting members to the group, in their order, and passes over those of the other kind: an acknowledged object
// leaves its table only when the group is visible, and would hide a later change of its key until then. And the log on
// persistent memory must know that the index has it before its key is changed. What is behind such a member in its
// bucket is passed over, too, so that a bucket's changes stay in order. The next group begins with what was passed
// over.
bool Committer::choose(CommitQueue& queue, Group& group) {
  const size_t before = group.members.size();
  std::vector<Pending> passed;
  std::vector<uint64_t> held_up;  // buckets
  while (!queue.waiting.empty() && std::max(group.members.size(), passed.size()) < options_.group_max) {
    Pending& next = queue.waiting.front();
    const Bucket* const bucket = next.mutation.bucket.get();
    const bool fits =
        group.members.empty() || next.mutation.written_behind == group.members.front().mutation.written_behind;
    if (bucket == nullptr) {
      // It may be about any bucket. And removing one also erases a row that the other queue writes, which conflicts
      // with the snapshot before the first piece.
      if (!fits || !passed.empty() || !group.hidden.empty()) {
        group.open = false;
        break;
      }
      group.members.push_back(std::move(next));
    } else {
      const bool is_held_up = std::ranges::find(held_up, bucket->id) != held_up.end();
      if (!fits && !is_held_up) held_up.push_back(bucket->id);
      (fits && !is_held_up ? group.members : passed).push_back(std::move(next));
    }
    queue.waiting.pop_front();
  }
  for (size_t i = before; i < group.members.size(); ++i) waits().observe_since(group.members[i].queued);
  if (!passed.empty()) group.open = false;
  std::move(passed.rbegin(), passed.rend(), std::front_inserter(queue.waiting));
  return group.members.size() != before;
}

namespace {

bool has_data(const Mutation& mutation) { return !mutation.runs.empty(); }

}  // namespace

// The data of the members from `from` on has been synced. What came meanwhile joins them, if its data is synced too:
// that is one more sync of volumes before the index is written, instead of a write and a sync of the log of its own
// after this one's. On average a change waits no longer, as long as those that join are not much fewer than those that
// wait for them. Once for a group, so that its first members are answered in the end.
bool Committer::join(CommitQueue& queue, Group& group, size_t from) {
  const std::lock_guard lock(queue.mutex);
  const bool whole = from == 0 && !group.open && !queue.more_follow;
  const size_t most = std::min(queue.waiting.size(), options_.group_max - group.members.size());
  if (!queue.durable || !whole || queue.stopping || 2 * most < group.members.size()) return false;
  return std::ranges::any_of(group.members, has_data, &Pending::mutation) && choose(queue, group);
}

// All members from `from` on, with those that joined.
Committer::Members Committer::sync_and_join(CommitQueue& queue, Group& group, size_t from) {
  const size_t first = group.members.size() - from;
  sync_data(queue, Members(group.members).subspan(from));
  if (join(queue, group, from)) sync_data(queue, Members(group.members).subspan(from + first));
  return Members(group.members).subspan(from);
}

std::vector<Committer::Pending> Committer::process(CommitQueue& queue) {
  Group group(*this);
  // A group that needs no sync runs under one lock: its changes and its counts belong together.
  std::unique_lock lock(index_mutex_, std::defer_lock);
  do {
    const size_t from = group.members.size();
    if (!take(queue, group)) break;
    // Data is synced before the index is written: one sync of a volume should cover the whole group.
    while (std::ranges::any_of(group.members.begin() + static_cast<ptrdiff_t>(from), group.members.end(), has_data,
                               &Pending::mutation) &&
           take(queue, group)) {
    }
    const Members members = sync_and_join(queue, group, from);
    refuse_without_space(members);
    lock.lock();
    write_piece(queue, group, from);
    if (queue.durable) lock.unlock();
  } while (queue.durable && group.written);
  finish(queue, group, lock);
  lock.unlock();
  requeue_moved(group);
  return std::move(group.members);
}

void Committer::let_go(Mutation& mutation) {
  garbage_.reclaim(std::move(mutation.runs));  // left only if it was refused
  // Destroy the closures before the caller is answered: it may close the store next.
  mutation = {};
}

// One wake-up of an executor answers many waiters, but not so many at once that other work of the executor is delayed
// long. Those of an executor follow each other, so that they do not wait for the destruction of the other members'
// closures, too.
void Committer::answer(std::vector<Pending> members) {
  constexpr size_t together_max = 32;
  struct Waiters {
    boost::asio::any_io_executor executor;
    std::vector<Pending*> members{};
  };
  std::vector<Waiters> waiting;  // by executor
  for (Pending& member : members) {
    if (!member.executor) {
      let_go(member.mutation);
      member.done(member.outcome);
      continue;
    }
    auto same = std::ranges::find(waiting, member.executor, &Waiters::executor);
    if (same == waiting.end()) same = waiting.insert(same, Waiters{member.executor});
    same->members.push_back(&member);
  }
  for (size_t from = 0; from < members.size(); from += together_max) {
    for (const auto& [executor, all] : waiting) {
      if (from < all.size())
        answer_on(executor, std::span(all).subspan(from, std::min(together_max, all.size() - from)));
    }
  }
}

void Committer::answer_on(const boost::asio::any_io_executor& executor, std::span<Pending* const> members) {
  std::vector<std::pair<Committed, Result<void>>> answers;
  answers.reserve(members.size());
  for (Pending* const member : members) {
    let_go(member->mutation);
    answers.emplace_back(std::move(member->done), std::move(member->outcome));
  }
  boost::asio::post(executor, [all = std::move(answers), given = Handoff()]() mutable {
    given.taken();
    for (auto& [done, outcome] : all) done(std::move(outcome));
  });
}

// Moves members whose bucket changed its durability. A bucket that became durable gets its promise at once. The keys of
// one that became a `memory` bucket must not be changed by both queues at a time: a roll-back of one could undo a
// change of the other.
void Committer::requeue_moved(Group& group) {
  std::erase_if(group.members, [&](Pending& pending) {
    if (!pending.other_queue) return false;
    pending.other_queue = false;
    enqueue(std::move(pending));
    return true;
  });
}

// What lies in a `memory` bucket's volumes is synced behind. A bucket that was durable when the blob was begun has
// written elsewhere, into free space or at the end of a durable volume: nothing else syncs that, and the bucket may be
// durable again by the time the power goes.
void Committer::sync_data(const CommitQueue& queue, Members members) {
  // One sync of a volume covers all members, whose writes have ended. Volume::sync() would be free for those after the
  // first only as long as no other body is written into it meanwhile.
  std::vector<std::pair<const Volume*, Result<void>>> synced;
  const auto sync = [&synced](Volume& volume) -> const Result<void>& {
    const auto known = std::ranges::find(synced, &volume, &decltype(synced)::value_type::first);
    return known != synced.end() ? known->second : synced.emplace_back(&volume, volume.sync()).second;
  };
  for (Pending& pending : members) {
    for (const Run& run : pending.mutation.runs) {
      if (!queue.durable && run.synced_behind) continue;
      pending.outcome = sync(*run.volume);
      if (!pending.outcome) break;
    }
  }
}

void Committer::refuse_without_space(Members members) {
  bool asks = std::any_of(members.begin(), members.end(), [](const Pending& p) { return p.mutation.takes_space; });
  if (!asks) return;
  auto space = volumes_.has_space();
  if (space && *space) return;
  for (Pending& pending : members) {
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

// The estimated batch size of these members.
size_t Committer::batch_bytes(Members members) {
  constexpr size_t of_rows = 512;  // heads, and the rows that they replace
  size_t bytes = 0;
  for (const Pending& pending : members) {
    const auto& blob = pending.mutation.blob;
    bytes += of_rows + (blob ? blob->written().in_index.size() : 0);
  }
  return bytes;
}

// Puts the members from `from` on that hold into the batch.
void Committer::apply(const CommitQueue& queue, Group& group, size_t from) {
  IndexTransaction& transaction = group.transaction;
  for (size_t i = from; i < group.members.size(); ++i) {
    Pending& pending = group.members[i];
    if (!pending.outcome) continue;
    pending.other_queue = is_durable(pending.mutation) != queue.durable;
    if (pending.other_queue) continue;
    const size_t dead = transaction.dead_.size(), abandoned = transaction.abandoned_.size(),
                 effects = transaction.effects_.size();
    transaction.batch().save();
    pending.outcome = transaction.run(pending.mutation.judge, pending.mutation.blob.get());
    if (pending.outcome) {
      if (pending.mutation.blob) add_blob(transaction.batch(), pending.mutation.blob->written());
      transaction.keep_count(pending.mutation.bucket);
      group.applied.push_back(i);
    } else {
      transaction.roll_back();
      transaction.dead_.resize(dead);
      transaction.abandoned_.resize(abandoned);
      transaction.effects_.resize(effects);
    }
  }
}

void Committer::write_piece(const CommitQueue& queue, Group& group, size_t from) {
  IndexTransaction& transaction = group.transaction;
  transaction.forget_bucket_row();  // the index was unlocked since the last piece
  group.written = recover_index();
  if (group.written) {
    transaction.batch().expect(batch_bytes(Members(group.members).subspan(from)));
    apply(queue, group, from);
    transaction.put_usage();
    Batch& batch = transaction.batch();
    if (batch.empty()) return;
    group.written = queue.durable ? index_.write_hidden(batch) : index_.write(batch);
    if (group.written && queue.durable) group.hidden.push_back(&batch);
    transaction.next_batch();
  }
  // Before the other queue makes the index recover: with this piece the whole group is undone.
  if (!group.written && !group.hidden.empty()) index_.give_up(group.hidden);
}

void Committer::finish(const CommitQueue& queue, Group& group, std::unique_lock<std::mutex>& lock) {
  if (group.written && !group.hidden.empty()) {
    const metrics::Timer timer(DiskTimes::get().log_sync);
    group.written = index_.make_durable(group.hidden);
  }
  if (!lock) lock.lock();
  if (group.written) {
    succeed(queue, group);
  } else {
    fail_all(group);
  }
}

// Effects run under the mutex: a bucket changes its queue between two groups of the other queue, not within one.
void Committer::succeed(const CommitQueue& queue, Group& group) {
  const IndexTransaction& transaction = group.transaction;
  for (size_t i : group.applied) {
    auto& runs = group.members[i].mutation.runs;
    for (const Run& run : runs) volumes_.settle(run);
    runs.clear();
  }
  for (const auto& counted : transaction.usage_) {
    counted.bucket->count(counted.change);
    if (counted.completes) counted.bucket->set_uncounted(false);
  }
  for (auto& effect : transaction.effects_) effect();
  garbage_.add_dead(transaction.dead_, queue.durable);
  for (const uint64_t bucket : transaction.abandoned_) garbage_.add_removed_bucket(bucket);
  groups().add();
  commits().add(group.applied.size());
}

void Committer::fail_all(Group& group) {
  // A crash now may bring the batches back, so the bytes that they name must stay until the index has moved past them.
  for (size_t i : group.applied) {
    auto& runs = group.members[i].mutation.runs;
    std::move(runs.begin(), runs.end(), std::back_inserter(limbo_));
    runs.clear();
  }
  // A refusal, too, if there was a change before it in the group: it may rest on what is undone now.
  const size_t changed = group.applied.empty() ? group.members.size() : group.applied.front();
  for (size_t i = 0; i < group.members.size(); ++i) {
    Pending& pending = group.members[i];
    if (pending.outcome || i > changed) pending.outcome = std::unexpected(group.written.error());
  }
  if (!group.applied.empty()) (void)recover_index();
}

}  // namespace verbena::store::local
