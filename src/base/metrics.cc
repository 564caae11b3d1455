#include "base/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "base/exposition.h"
#include "base/metric_families.h"
#include "base/readings.h"
#include "base/renamed_metrics.h"

namespace verbena::metrics {
namespace {

template <class Metric>
struct Family {
  std::string help;
  std::map<Labels, Metric*> metrics;
};

// Lives for the whole program and is never destroyed: threads may count until the very end.
struct Registry {
  std::mutex mutex;
  std::mutex readers_mutex;  // taken before the other
  std::vector<std::function<void()>> readers;
  std::deque<Counter> counters;  // stable addresses
  std::deque<Gauge> gauges;
  std::map<std::string, Family<Counter>, std::less<>> counter_families;
  std::map<std::string, Family<Gauge>, std::less<>> gauge_families;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

template <class Metric>
Metric& find(std::map<std::string, Family<Metric>, std::less<>>& families, std::deque<Metric>& all,
             std::string_view name, std::string_view help, const Labels& labels) {
  auto& family = families[std::string(name)];
  if (family.help.empty()) family.help = help;
  auto& slot = family.metrics[labels];
  if (slot == nullptr) slot = &all.emplace_back();
  return *slot;
}

template <class Metric, class Fill>
void collect(const std::map<std::string, Family<Metric>, std::less<>>& families, prometheus::MetricType type, Fill fill,
             std::vector<prometheus::MetricFamily>& out) {
  for (const auto& [name, family] : families) {
    prometheus::MetricFamily exported{name, family.help, type, {}};
    for (const auto& [labels, metric] : family.metrics) {
      prometheus::ClientMetric sample;
      for (const auto& [key, value] : labels) sample.label.push_back({key, value});
      fill(sample, static_cast<double>(metric->value()));
      exported.metric.push_back(std::move(sample));
    }
    const auto old = std::ranges::find(renamed_metrics, std::string_view(name), &RenamedMetric::name);
    if (old != renamed_metrics.end()) {
      out.push_back({std::string(old->old_name), "Old name of " + name + ".", type, exported.metric});
    }
    out.push_back(std::move(exported));
  }
}

}  // namespace

Counter& counter(std::string_view name, std::string_view help, const Labels& labels) {
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  return find(r.counter_families, r.counters, name, help, labels);
}

Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels) {
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  return find(r.gauge_families, r.gauges, name, help, labels);
}

void before_exposition(std::function<void()> read) {
  auto& r = registry();
  const std::lock_guard lock(r.readers_mutex);
  r.readers.push_back(std::move(read));
}

void run_readers() {
  auto& r = registry();
  const std::lock_guard lock(r.readers_mutex);
  for (const auto& read : r.readers) read();
}

void add_values(Families& families) {
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  collect(
      r.counter_families, prometheus::MetricType::Counter,
      [](prometheus::ClientMetric& m, double v) { m.counter.value = v; }, families.all);
  collect(
      r.gauge_families, prometheus::MetricType::Gauge, [](prometheus::ClientMetric& m, double v) { m.gauge.value = v; },
      families.all);
}

std::vector<Reading> read_values(std::string_view name) {
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  std::vector<Reading> readings;
  const auto add = [&](const auto& families) {
    const auto family = families.find(name);
    if (family == families.end()) return;
    for (const auto& [labels, metric] : family->second.metrics) {
      readings.push_back({labels, static_cast<double>(metric->value())});
    }
  };
  add(r.counter_families);
  add(r.gauge_families);
  return readings;
}

std::string exposition() { return exposition(Format::text); }

}  // namespace verbena::metrics
