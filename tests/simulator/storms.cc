// Storms: for some operations all clients work without a rest on one bucket, most of them on one key, often while a
// lifecycle pass begins.
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {

void World::begin_storm() {
  // Over Ceph calls take longer: all clients' are open at once, and of one key there are too many orders to try.
  if (!plan_.has("storms") || engine_->shared() || in_storm()) return;
  Bucket& bucket = *used_[draw(used_.size())];
  if (bucket.unsettled != 0 || (!bucket.versioned() && draw(2) == 0)) return;
  storm_ = {.bucket = &bucket, .key = static_cast<uint32_t>(draw(bucket.last.size())), .until = clock_ + 20 + draw(60)};
  Scheduler::get().wake(&storm_);
}

// Between two operations of a client; a storm ends it.
void World::rest() {
  Scheduler& scheduler = Scheduler::get();
  uint64_t us = draw(8) == 0 ? draw(700'000) : draw(500);
  if (in_storm()) us = draw(8) == 0 ? draw(2000) : draw(40);
  if (const int64_t most_ns = engine_->linger_ns(); most_ns != 0) us = draw(static_cast<uint64_t>(most_ns) / 1000);
  scheduler.wait(&storm_, scheduler.steady_ns() + static_cast<int64_t>(us) * 1000);
}

void World::act_in_storm(Loop& loop, Bucket& bucket) {
  const uint32_t key = draw(5) == 0 ? static_cast<uint32_t>(draw(bucket.last.size())) : storm_.key;
  const uint64_t choice = draw(100);
  if (bucket.kind == BucketKind::directory || choice < 8) return act_on(loop, bucket, key);
  if (choice < 35) return put(loop, bucket, key);
  if (choice < 43) return remove(loop, bucket, key);
  if (!bucket.versioned()) {
    if (choice < 60) return get(loop, bucket, key);
    if (choice < 80) return list(loop, bucket);
    if (choice < 90) return copy(loop, bucket, key);
    return act_on_upload(loop, bucket, key);
  }
  if (choice < 65) return list_versions(loop, bucket);
  if (choice < 85) {
    remove_version(loop, bucket);
    if (draw(2) == 0 && may_act(bucket)) list_versions(loop, bucket);
    return;
  }
  if (choice < 90) return read_version(loop, bucket);
  return choice < 95 ? list(loop, bucket) : get(loop, bucket, key);
}

}  // namespace verbena::simulator
