#include "memory/aside.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/metrics.h"

namespace verbena::memory {
namespace {

struct Waiting {
  Bytes memory;
  std::function<void()> give_back;
};

struct Kept {
  std::mutex mutex;
  std::vector<Bytes> ranges;
  std::vector<Waiting> waiting;
  metrics::Gauge& bytes =
      metrics::gauge("verbena_gpudirect_set_aside_bytes",
                     "Bytes of the arena that are not used again because a copy by a GPU did not end in time");

  // Never destroyed: threads that wait for a device may outlive the statics.
  static Kept& all() {
    static Kept* const kept = new Kept;
    return *kept;
  }
};

bool overlap(Bytes a, Bytes b) { return a.data() < b.data() + b.size() && b.data() < a.data() + a.size(); }

}  // namespace

std::atomic<size_t> Aside::count_{0};

void Aside::export_metrics() { Kept::all(); }

Aside::Aside(Bytes memory) : memory_(memory) {
  Kept& kept = Kept::all();
  const std::lock_guard lock(kept.mutex);
  kept.ranges.push_back(memory);
  count_ = kept.ranges.size();
  kept.bytes.add(static_cast<int64_t>(memory.size()));
}

Aside::~Aside() {
  Kept& kept = Kept::all();
  const std::lock_guard lock(kept.mutex);
  const auto same = [this](Bytes range) { return range.data() == memory_.data() && range.size() == memory_.size(); };
  kept.ranges.erase(std::ranges::find_if(kept.ranges, same));
  count_ = kept.ranges.size();
  kept.bytes.add(-static_cast<int64_t>(memory_.size()));
  std::erase_if(kept.waiting, [&](const Waiting& one) {
    if (std::ranges::any_of(kept.ranges, [&](Bytes range) { return overlap(range, one.memory); })) return false;
    one.give_back();
    return true;
  });
}

bool Aside::keeps(Bytes memory, std::function<void()> give_back) {
  Kept& kept = Kept::all();
  const std::lock_guard lock(kept.mutex);
  if (std::ranges::none_of(kept.ranges, [&](Bytes range) { return overlap(range, memory); })) return false;
  kept.waiting.push_back({memory, std::move(give_back)});
  return true;
}

bool Aside::abandon(Bytes arena, size_t& waiting) {
  waiting = 0;
  if (!any()) return false;
  Kept& kept = Kept::all();
  const std::lock_guard lock(kept.mutex);
  std::erase_if(kept.waiting, [&](const Waiting& one) {
    if (!overlap(arena, one.memory)) return false;
    waiting += one.memory.size();
    return true;
  });
  return std::ranges::any_of(kept.ranges, [&](Bytes range) { return overlap(range, arena); });
}

}  // namespace verbena::memory
