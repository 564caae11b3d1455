#include "base/histogram.h"

#include <prometheus/client_metric.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/metric_families.h"
#include "base/readings.h"

namespace verbena::metrics {
namespace {

struct HistogramFamily {
  std::string help;
  std::map<Labels, Histogram*> metrics;
};

// Lives for the whole program and is never destroyed: threads may count until the very end.
struct Histograms {
  std::mutex mutex;
  std::deque<Histogram> all;  // stable addresses
  std::map<std::string, HistogramFamily, std::less<>> families;
  std::vector<detail::Cells*> cells;  // of all threads, past and present
  std::vector<detail::Cells*> free;   // unused ones; their counts still count
};

Histograms& histograms() {
  static auto* const instance = new Histograms;
  return *instance;
}

struct CellsKeeper {
  detail::Cells* cells = nullptr;
  ~CellsKeeper() {
    if (cells == nullptr) return;
    detail::cells_of_thread = nullptr;
    const std::lock_guard lock(histograms().mutex);
    histograms().free.push_back(cells);
  }
};
thread_local CellsKeeper keeper;

}  // namespace

detail::Cells* detail::take_cells() {
  auto& r = histograms();
  const std::lock_guard lock(r.mutex);
  Cells* cells = nullptr;
  if (r.free.empty()) {
    cells = new Cells;
    r.cells.push_back(cells);
  } else {
    cells = r.free.back();
    r.free.pop_back();
  }
  keeper.cells = cells;
  cells_of_thread = cells;
  return cells;
}

Histogram& histogram(std::string_view name, std::string_view help, const Labels& labels) {
  tick_source();  // before the time is first read for it
  auto& r = histograms();
  const std::lock_guard lock(r.mutex);
  auto& family = r.families[std::string(name)];
  if (family.help.empty()) family.help = help;
  auto& slot = family.metrics[labels];
  if (slot == nullptr) {
    if (r.all.size() == detail::histograms_max) {
      std::fputs("metrics: too many histograms\n", stderr);
      std::abort();
    }
    slot = &r.all.emplace_back(static_cast<uint32_t>(r.all.size()));
  }
  return *slot;
}

Histogram::Sum Histogram::sum() const {
  Sum sum;
  {
    auto& r = histograms();
    const std::lock_guard lock(r.mutex);
    for (const detail::Cells* cells : r.cells) {
      const auto& row = cells->rows[index_];
      sum.total_ns += row[0].load(std::memory_order_relaxed);
      for (size_t i = 0; i < buckets; ++i) sum.counts[i] += row[1 + i].load(std::memory_order_relaxed);
    }
  }
  const std::lock_guard lock(exemplars_mutex_);
  sum.exemplars = exemplars_;
  return sum;
}

// Skipped if locked: a missing exemplar is no loss.
void Histogram::remember(size_t bucket, uint64_t ns, std::string_view request) {
  const std::unique_lock lock(exemplars_mutex_, std::try_to_lock);
  if (!lock) return;
  Exemplar& exemplar = exemplars_[bucket];
  std::memset(exemplar.request, 0, sizeof exemplar.request);
  std::memcpy(exemplar.request, request.data(), std::min(request.size(), sizeof exemplar.request));
  exemplar.ns = ns;
  exemplar.time_ms = system_clock().now_us() / 1000;
}

namespace {

void add_family(Families& families, const std::string& name, const std::string& help,
                const std::vector<std::pair<Labels, Histogram*>>& metrics) {
  prometheus::MetricFamily exported{name, help, prometheus::MetricType::Histogram, {}};
  for (const auto& [labels, histogram] : metrics) {
    const Histogram::Sum sum = histogram->sum();
    prometheus::ClientMetric metric;
    for (const auto& [key, value] : labels) metric.label.push_back({key, value});
    uint64_t counted = 0;
    for (size_t i = 0; i < Histogram::buckets; ++i) {
      counted += sum.counts[i];
      const double bound = i < Histogram::bounds ? Histogram::bound_s(i) : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({counted, bound});
      if (sum.exemplars[i].time_ms != 0) {
        families.exemplars[{families.all.size(), exported.metric.size(), i}] = sum.exemplars[i];
      }
    }
    if (counted == 0) continue;  // most pairs of labels never occur
    metric.histogram.sample_count = counted;
    metric.histogram.sample_sum = static_cast<double>(sum.total_ns) / 1e9;
    exported.metric.push_back(std::move(metric));
  }
  families.all.push_back(std::move(exported));
}

}  // namespace

std::vector<Distribution> read_histograms(std::string_view name) {
  std::map<Labels, Histogram*> known;
  {
    auto& r = histograms();
    const std::lock_guard lock(r.mutex);
    const auto family = r.families.find(name);
    if (family != r.families.end()) known = family->second.metrics;
  }
  std::vector<Distribution> found;
  for (const auto& [labels, histogram] : known) {
    const Histogram::Sum sum = histogram->sum();
    const bool any = std::ranges::any_of(sum.counts, [](uint64_t count) { return count != 0; });
    if (any) found.push_back({labels, sum.counts});
  }
  return found;
}

void add_histograms(Families& families) {
  auto& r = histograms();
  std::map<std::string, HistogramFamily, std::less<>> known;
  {
    const std::lock_guard lock(r.mutex);
    known = r.families;
  }
  for (const auto& [name, family] : known) {
    add_family(families, name, family.help, {family.metrics.begin(), family.metrics.end()});
  }
}

}  // namespace verbena::metrics
