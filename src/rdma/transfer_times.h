// How long one-sided operations took: verbena_fabric_transfer_seconds{op}; not those that are a copy
// made at once, which would notice being measured. Counted here, and by native/write_batch.
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
