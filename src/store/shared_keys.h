// The interface between a hot tier and an engine whose keys other processes change, too.
//
// A cached object may be served if the engine confirms that it is still current, which is a round trip. A key under a
// *read lease* (kept) needs none: no other process changes it before this one was notified and has dropped the object,
// or has been silent for so long that by its own clock its leases have expired.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/task.h"
#include "store/store.h"

namespace verbena::store {

class SharedKeys {
 public:
  virtual ~SharedKeys() = default;

  // As Store::open() of the current object; null: the current one has this stamp (ObjectInfo::stamp).
  virtual Task<Result<std::shared_ptr<ObjectReader>>> open_unless(std::string_view bucket, std::string_view key,
                                                                  uint64_t stamp) = 0;

  // The lease epoch: objects kept in an epoch may be served while term() returns it. 0: this process holds no leases
  // just now. Cheap; for any thread.
  virtual uint64_t term() const = 0;
  // Requests a read lease on a key whose object still has this stamp. `kept` runs with the epoch when the lease is
  // granted, on any thread; never if it cannot be granted. A caller that drops the object meanwhile must drop it for
  // good: an object that it finds later is another one.
  virtual void keep(std::string_view bucket, std::string_view key, uint64_t stamp,
                    std::function<void(uint64_t term)> kept) = 0;

  // Called on any thread, while other processes wait for its return: it must not wait itself.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void let_go(std::string_view bucket, std::string_view key) = 0;
    virtual void let_go_of_bucket(std::string_view bucket) = 0;
    virtual void let_go_of_all() = 0;
    // The number of objects kept in that epoch, for statistics.
    virtual uint64_t kept(uint64_t term) const = 0;
  };
  // Sets the one listener; null: none. It is not called any more once the call has returned.
  virtual void listen(Listener* listener) = 0;
};

}  // namespace verbena::store
