// Descriptors that a client hands over for the server's use: of a GPU's memory, until the driver has taken them. Few
// wait at the same time, of a client, of its user and of all clients of the process together: a file that a client
// makes the server keep open is one that the server lacks. They count until they are closed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "fabric/device.h"
#include "fabric/local/fd.h"
#include "fabric/local/shares.h"

namespace verbena::fabric::local {

class Parcel {
 public:
  static constexpr uint64_t descriptors_max = 512;  // of the process
  static constexpr uint64_t of_user_max = 256;      // who runs clients on this host
  static constexpr uint64_t of_client_max = handed_over_max;

  // One for each client.
  struct Budgets {
    std::shared_ptr<Budget> client, user;
  };
  static Budgets budgets_for(uid_t user);

  // slow_down: too many wait.
  static Result<std::shared_ptr<const Parcel>> keep(std::vector<Fd> descriptors, const Budgets& budgets);
  // Does not close them itself: that may block (disposer.h). From any thread.
  ~Parcel();
  Parcel(const Parcel&) = delete;

  std::vector<int> descriptors() const;

 private:
  Parcel(std::vector<Fd> descriptors, std::shared_ptr<const void> place)
      : descriptors_(std::move(descriptors)), place_(std::move(place)) {}
  std::vector<Fd> descriptors_;
  std::shared_ptr<const void> place_;
};

void dispose_all(std::vector<Fd> descriptors);

}  // namespace verbena::fabric::local
