// The metrics as numbers, for outputs other than a scraper's.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/metrics.h"

namespace verbena::metrics {

struct Reading {
  Labels labels;
  double value = 0;
};
// The counters or gauges of that name; empty if none was made.
std::vector<Reading> read_values(std::string_view name);

struct Distribution {
  Labels labels;
  std::array<uint64_t, Histogram::buckets> counts{};
};
// The non-empty histograms of that name.
std::vector<Distribution> read_histograms(std::string_view name);

}  // namespace verbena::metrics
