// The data that base/metrics.cc and base/histogram.cc pass to base/exposition.cc. Private to these.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <map>
#include <vector>

#include "base/histogram.h"

namespace verbena::metrics {

struct Families {
  std::vector<prometheus::MetricFamily> all;
  // By index of family, metric and bucket.
  std::map<std::array<size_t, 3>, Histogram::Exemplar> exemplars;
};

void run_readers();  // of before_exposition()
void add_values(Families& families);
void add_histograms(Families& families);

}  // namespace verbena::metrics
