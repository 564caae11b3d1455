#include "s3/usage_metrics.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "base/exposition.h"

namespace verbena::s3 {
namespace {

using metrics::Collected;

// All stores of the process: tests have several. Lives for the whole program.
struct ShownStores {
  std::mutex mutex;
  std::map<const UsageMetrics*, std::pair<store::Store*, unsigned>> stores;
  ShownStores() {
    metrics::collect_counters([this](std::vector<Collected>& out) { collect(out); });
  }
  void collect(std::vector<Collected>& out);
};
ShownStores& shown_stores() {
  static auto* const instance = new ShownStores;
  return *instance;
}

Collected stored_gauge(const char* name, const char* help) {
  Collected made{name, help, {}};
  made.is_gauge = true;
  return made;
}

void ShownStores::collect(std::vector<Collected>& out) {
  const std::lock_guard lock(mutex);
  if (stores.empty()) return;
  store::Usage sum;
  Collected bytes =
      stored_gauge("verbena_bucket_stored_bytes",
                   "Bytes of objects, old versions and unfinished uploads, of the buckets that hold most");
  Collected objects = stored_gauge("verbena_bucket_stored_objects",
                                   "Objects, old versions, delete markers and unfinished uploads, of the same buckets");
  for (const auto& [owner, of] : stores) {
    auto usages = of.first->usages_now();
    std::erase_if(usages, [](const store::BucketUsage& one) { return !one.counted; });
    for (const auto& one : usages) sum += one.usage;
    const size_t most = std::min<size_t>(usages.size(), of.second);
    std::ranges::partial_sort(usages, usages.begin() + static_cast<ptrdiff_t>(most), std::greater(),
                              [](const store::BucketUsage& one) { return one.usage.all_bytes(); });
    for (size_t i = 0; i < most; ++i) {
      const auto& [name, bucket_owner, usage, counted] = usages[i];
      bytes.samples.push_back({{{"bucket", name}}, static_cast<double>(usage.all_bytes())});
      objects.samples.push_back({{{"bucket", name}}, static_cast<double>(usage.all_objects())});
    }
  }
  Collected all_bytes = stored_gauge("verbena_stored_bytes", "Bytes of objects, old versions and unfinished uploads");
  Collected all_objects =
      stored_gauge("verbena_stored_objects", "Objects, old versions, delete markers and unfinished uploads");
  all_bytes.samples.push_back({{}, static_cast<double>(sum.all_bytes())});
  all_objects.samples.push_back({{}, static_cast<double>(sum.all_objects())});
  for (Collected* one : {&all_bytes, &all_objects, &bytes, &objects}) out.push_back(std::move(*one));
}

}  // namespace

UsageMetrics::UsageMetrics(store::Store& store, unsigned most) {
  if (!store.keeps_usage()) return;
  ShownStores& s = shown_stores();
  const std::lock_guard lock(s.mutex);
  s.stores[this] = {&store, most};
}

UsageMetrics::~UsageMetrics() {
  ShownStores& s = shown_stores();
  const std::lock_guard lock(s.mutex);
  s.stores.erase(this);
}

}  // namespace verbena::s3
