// Durations of one-sided operations: verbena_fabric_transfer_seconds{op}; without those that are a copy within the
// call, which measuring would slow down. Counted here, and by native/write_batch.
#pragma once

#include "base/histogram.h"

namespace verbena::rdma {

struct TransferTimes {
  metrics::Histogram& write = of("write");  // of a piece of an object into a client's window
  metrics::Histogram& read = of("read");    // out of one

  static TransferTimes& get() {
    static TransferTimes all;
    return all;
  }

 private:
  static metrics::Histogram& of(const char* op) {
    return metrics::histogram("verbena_fabric_transfer_seconds", "Time that transfers to or from clients' windows took",
                              {{"op", op}});
  }
};

}  // namespace verbena::rdma
