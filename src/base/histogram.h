// Distributions of durations in Prometheus' model. An observation takes no lock and no atomic read-modify-write: each
// thread counts in cells of its own, and reading the metrics adds them up.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/metrics.h"
#include "base/ticks.h"

namespace verbena::metrics {

class Histogram {
 public:
  // Upper bounds are 250 ns, 500 ns, 1 us ... 16.8 s, each twice the one before; the last bucket has longer times.
  static constexpr uint64_t first_bound_ns = 250;
  static constexpr size_t bounds = 27;
  static constexpr size_t buckets = bounds + 1;
  static size_t bucket_of(uint64_t ns) {
    return std::min<size_t>(std::bit_width((ns - (ns != 0)) / first_bound_ns), bounds);
  }
  static double bound_s(size_t bucket) { return static_cast<double>(first_bound_ns << bucket) / 1e9; }

  explicit Histogram(uint32_t index) : index_(index) {}
  Histogram(const Histogram&) = delete;

  // Any thread. `request`: its id, of 16 characters, if there is one: some observations keep it as an exemplar.
  void observe_ns(uint64_t ns, std::string_view request = {});
  void observe_since(uint64_t began, std::string_view request = {}) { observe_ns(ns_between(began, ticks()), request); }

  struct Exemplar {
    char request[16];
    uint64_t ns = 0;
    int64_t time_ms = 0;  // Unix time; 0: none
  };
  struct Sum {
    uint64_t total_ns = 0;
    std::array<uint64_t, buckets> counts{};
    std::array<Exemplar, buckets> exemplars{};
  };
  Sum sum() const;

 private:
  void remember(size_t bucket, uint64_t ns, std::string_view request);

  const uint32_t index_;
  mutable std::mutex exemplars_mutex_;
  std::array<Exemplar, buckets> exemplars_{};
};

// The histogram of that name and labels, made at first use; valid for the whole program. Names end in _seconds. The
// number is bounded by the code's declarations, whose labels are few: more than histograms_max end the program.
Histogram& histogram(std::string_view name, std::string_view help, const Labels& labels = {});

namespace detail {

constexpr size_t histograms_max = 256;

// A thread's cells. The first of a row is the sum. They outlive the thread, and are reused by a later one.
struct Cells {
  using Row = std::array<std::atomic<uint64_t>, 1 + Histogram::buckets>;
  std::array<Row, histograms_max> rows{};

  // Only one writer, so a load and a store suffice.
  static uint64_t bump(std::atomic<uint64_t>& cell, uint64_t n) {
    const uint64_t now = cell.load(std::memory_order_relaxed) + n;
    cell.store(now, std::memory_order_relaxed);
    return now;
  }
};
inline constinit thread_local Cells* cells_of_thread = nullptr;
Cells* take_cells();

}  // namespace detail

inline void Histogram::observe_ns(uint64_t ns, std::string_view request) {
  // Every 64th of the fast ones, and each one that took longer than reading the time of day.
  constexpr uint64_t one_exemplar_in = 64;
  constexpr uint64_t slow_ns = 1'000'000;
  detail::Cells* cells = detail::cells_of_thread;
  if (cells == nullptr) [[unlikely]]
    cells = detail::take_cells();
  auto& row = cells->rows[index_];
  const size_t bucket = bucket_of(ns);
  detail::Cells::bump(row[0], ns);
  const uint64_t seen = detail::Cells::bump(row[1 + bucket], 1);
  if ((seen % one_exemplar_in == 1 || ns > slow_ns) && !request.empty()) [[unlikely]]
    remember(bucket, ns, request);
}

// Observes the duration of its scope.
class Timer {
 public:
  explicit Timer(Histogram& histogram) : histogram_(histogram), began_(ticks()) {}
  ~Timer() { histogram_.observe_since(began_); }
  Timer(const Timer&) = delete;

 private:
  Histogram& histogram_;
  const uint64_t began_;
};

}  // namespace verbena::metrics
