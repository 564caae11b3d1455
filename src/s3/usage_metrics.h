// What is stored, in the metrics: all of it, and by bucket of those that hold most. However many buckets there are, as
// many series as are shown.
#pragma once

#include "store/store.h"

namespace verbena::s3 {

class UsageMetrics {
 public:
  // `store` outlives it. `most`: how many buckets are shown.
  UsageMetrics(store::Store& store, unsigned most);
  ~UsageMetrics();
  UsageMetrics(const UsageMetrics&) = delete;
};

}  // namespace verbena::s3
