// Metrics of stored objects: in total, and by bucket for the largest. The number of series is limited, however many
// buckets there are.
#pragma once

#include "store/store.h"

namespace verbena::s3 {

class UsageMetrics {
 public:
  // `store` must outlive it. `most`: the number of buckets shown.
  UsageMetrics(store::Store& store, unsigned most);
  ~UsageMetrics();
  UsageMetrics(const UsageMetrics&) = delete;
};

}  // namespace verbena::s3
