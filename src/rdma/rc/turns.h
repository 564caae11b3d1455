// Turns of payers at a limited number of places, so that one whose work takes long leaves places to others.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/result.h"
#include "base/task.h"
#include "rdma/rc/places.h"

namespace verbena::rdma::rc {

// Thread-safe.
class Turns {
 public:
  struct Limits {
    size_t all_max = 8;       // at a time
    size_t each_max = 2;      // of one account from one client's address
    size_t account_max = 4;   // of one account
    size_t unsigned_max = 4;  // of all calls that are not signed
    std::chrono::milliseconds waits_max{10'000};
  };
  // Given back when the last copy is gone.
  using Turn = std::shared_ptr<const void>;

  explicit Turns(const Limits& limits);
  // Resumes when it is the payer's turn: those that wait come one after the other, each with one call. slow_down: it
  // has waited too long, which is noticed when a turn is given back. closed: after end().
  Task<Result<Turn>> take(Payer payer);
  // Those that wait never resume. Their loops still exist, and do not run.
  void end();

 private:
  struct State;
  struct Held;
  std::shared_ptr<State> state_;
};

}  // namespace verbena::rdma::rc
