// Descriptors that a client hands over for the server's use: of a GPU's memory, until the driver has taken them. Few
// wait at the same time, of all clients of the process together: a file that a client makes the server keep open is one
// that the server lacks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

class Parcel {
 public:
  static constexpr uint64_t descriptors_max = 256;  // of the process

  // slow_down: too many wait.
  static Result<std::shared_ptr<const Parcel>> keep(std::vector<Fd> descriptors);
  // Does not close them itself: that may block (disposer.h). From any thread.
  ~Parcel();
  Parcel(const Parcel&) = delete;

  std::vector<int> descriptors() const;

 private:
  explicit Parcel(std::vector<Fd> descriptors) : descriptors_(std::move(descriptors)) {}
  std::vector<Fd> descriptors_;
};

void dispose_all(std::vector<Fd> descriptors);

}  // namespace verbena::fabric::local
