#include "store/local/recount.h"

#include <future>
#include <utility>

#include "base/log.h"
#include "store/local/catalogue.h"
#include "store/local/engine.h"
#include "store/logic/damage.h"
#include "store/logic/object_ops.h"
#include "store/logic/usage.h"

namespace verbena::store::local {

Recount::Recount(Engine& engine, RecountOptions options) : engine_(engine), options_(std::move(options)) {
  for (const auto& bucket : engine.buckets.all()) {
    if (bucket->uncounted.load()) buckets_.push_back(bucket);
  }
  if (!buckets_.empty()) snapshot_ = engine.index->snapshot();
}

void Recount::start() {
  if (!buckets_.empty()) thread_ = std::thread(&Recount::run, this);
}

void Recount::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  snapshot_.reset();
}

bool Recount::stopping_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [this] { return stopping_; });
}

void Recount::run() {
  log::info("store: counting what {} buckets hold", buckets_.size());
  for (auto left = buckets_; !left.empty();) {
    std::vector<std::shared_ptr<const Bucket>> again;
    for (const auto& bucket : left) {
      if (stopping_within(std::chrono::seconds(0))) return;
      if (!count(bucket)) again.push_back(bucket);
    }
    left = std::move(again);
    if (!left.empty() && stopping_within(options_.again_after)) return;
  }
  snapshot_.reset();
}

Result<Usage> Recount::usage_of(uint64_t bucket) {
  if (options_.count_by) return options_.count_by(bucket);
  // All three tables as of before the first change, which is where counting in memory began.
  IndexMoment rows(*engine_.index, snapshot_, Tier::disk);
  return count_bucket(rows, bucket, [this] { return !stopping_within(std::chrono::seconds(0)); });
}

// Damage stays until an operator mends it. Whatever else fails may pass, and until the bucket is counted no quota of
// its account counts what was there at the start.
bool Recount::count(const std::shared_ptr<const Bucket>& bucket) {
  const auto usage = usage_of(bucket->id);
  if (!usage && usage.error() == Errc::cancelled) return true;
  if (!usage) {
    log::error("store: what bucket {} holds cannot be counted: {}", bucket->name, describe(usage.error()));
    return is_damage(usage.error());
  }
  for (;;) {
    const auto done = commit(bucket, *usage);
    if (done || done.error() == Errc::no_such_bucket || done.error() == Errc::closed) return true;
    log::warn("store: what bucket {} holds cannot be written: {}", bucket->name, describe(done.error()));
    if (stopping_within(options_.again_after)) return true;
  }
}

Result<void> Recount::commit(const std::shared_ptr<const Bucket>& bucket, const Usage& usage) {
  auto judge = [bucket, usage](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    transaction.count(usage);
    static_cast<IndexTransaction&>(transaction).complete_count();
    return {};
  };
  const auto outcome = std::make_shared<std::promise<Result<void>>>();
  auto waiting = outcome->get_future();
  engine_.committer->submit({.judge = std::move(judge), .blob = nullptr, .runs = {}, .bucket = bucket},
                            [outcome](Result<void> done) { outcome->set_value(done); });
  return waiting.get();
}

}  // namespace verbena::store::local
