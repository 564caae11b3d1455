// Limits of the memory of devices that is mapped for clients: of a session, and of an account. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace verbena::native {

class DeviceLimits {
 public:
  // On average: memory in pieces has a mapping of the driver for each.
  static constexpr size_t pieces_each = 16;
  struct Limit {
    size_t count = 0;
    uint64_t bytes = 0;
  };
  struct Options {
    Limit session, account;
  };
  // The place of one mapping, until it is destroyed. May outlive the limits.
  using Place = std::shared_ptr<const void>;

  explicit DeviceLimits(Options options) : options_(options) {}
  struct Wish {
    uint64_t bytes = 0;
    size_t pieces = 1;
  };
  // slow_down: a limit is reached.
  Result<Place> take(uint64_t session, const std::string& account, const Wish& wish);

 private:
  struct Party {
    std::mutex mutex;
    size_t count = 0, pieces = 0;
    uint64_t bytes = 0;
    bool take(const Limit& limit, const Wish& more);
    void give(const Wish& less);
  };
  struct Held;
  template <class Name>
  using Parties = std::map<Name, std::weak_ptr<Party>>;
  template <class Name>
  std::shared_ptr<Party> find(Parties<Name>& among, const Name& name);

  const Options options_;
  std::mutex mutex_;
  Parties<uint64_t> sessions_;
  Parties<std::string> accounts_;
};

}  // namespace verbena::native
