// Metrics in Prometheus' model. One process-wide registry; a metric is looked up once (at construction of its user)
// and then costs one relaxed atomic add.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace verbena::metrics {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  // For a total that is counted elsewhere (in the kernel).
  void set(uint64_t total) { value_.store(total, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// The metric of that name and labels, made at first use. The reference is valid for the whole program.
// Names follow Prometheus: verbena_<room>_<what>_total for counters.
Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});

// `read` runs at the start of every exposition(), one at a time: for values that are stored elsewhere.
void before_exposition(std::function<void()> read);

// All metrics in Prometheus' text exposition format 0.0.4.
std::string exposition();

}  // namespace verbena::metrics
