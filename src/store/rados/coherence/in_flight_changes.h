// In-flight changes of buckets. Before a change is committed every server is notified and records an intent: from then
// on it serves nothing of the bucket from memory, but reads it from the cluster, where all servers see the same. After
// the change every server reloads the bucket and serves from memory again. README.md shows why there is no gap.
#pragma once

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "store/rados/members/intents.h"
#include "store/rados/rows/key_locks.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class InFlightChanges final : public std::enable_shared_from_this<InFlightChanges> {
 public:
  struct Helpers {
    std::function<Task<Result<void>>(Notice)> tell;            // returns when every server has handled the notice
    std::function<Task<Result<void>>(std::string name)> read;  // reloads the bucket of that name into memory
    std::function<Task<Result<void>>()> read_all;              // reloads all buckets
    std::function<void(std::string_view name)> forget_kept;    // drops the bucket's objects from memory
    std::function<void(std::string_view name)> on_change;  // invalidates what upper layers have cached of the bucket
    std::function<bool()> fresh;
  };
  InFlightChanges(Registry& registry, boost::asio::io_context& io, std::chrono::milliseconds intent_lasts,
                  Helpers helpers)
      : registry_(registry), io_(io), intent_lasts_(intent_lasts), helpers_(std::move(helpers)) {}

  // A change made by this server, passed to the calls below in turn.
  struct OwnChange {
    Intent intent{};
    bool told = false;    // others may have recorded the intent
    bool unsure = false;  // it was sent to the cluster, and its outcome is unknown
    ChangeCharges::Held charge{};
  };
  // Returns when no server serves the bucket from memory. Call again when the change is judged again.
  // service_unavailable: a server did not confirm, and nothing may be changed; slow_down.
  struct Planned {
    uint64_t bucket = 0, epoch = 0;  // as in Intent
    std::string name{}, owner{};
    bool renames = false;
  };
  Task<Result<void>> before(OwnChange& own, Planned planned);
  // `done`: the outcome. Returns the answer for the client, when every server serves the new state.
  Task<Result<void>> after(OwnChange& own, Result<void> done);

  // Handles a notice of another server. limit_exceeded: there are too many intents.
  Task<Result<void>> hear(Notice notice);
  std::string told() const { return encode(intents_.list()); }  // all intents, for a server that joins
  bool take(const std::vector<Intent>& intents);                // false: there are too many
  void set_all(bool doubtful) { intents_.set_all(doubtful); }

  // Whether the bucket in memory may be served and cached.
  bool is_sure(std::string_view name) const { return !intents_.has(name); }
  bool has_intent(uint64_t bucket) const { return intents_.has(bucket); }
  // For a bucket with an intent: returns when memory has a state that was read after the call.
  Task<Result<void>> settle(std::string name);
  Task<Result<void>> settle_all();  // likewise for all buckets
  const Intents& intents() const { return intents_; }

  // Call regularly, on the thread of `io`: ends intents whose end was never reported.
  void look();
  void stop() { stopping_ = true; }
  // Stops waking calls that wait for a reload: after the engine's calls have ended.
  void close() { readings_.close(); }

 private:
  Task<Result<void>> read_once(std::string name);  // empty: all of them
  Task<> end_old();
  Task<Result<void>> end_one(Intent intent);
  Task<Result<void>> forbid(Intent intent);

  Registry& registry_;
  boost::asio::io_context& io_;
  const std::chrono::milliseconds intent_lasts_;
  const Helpers helpers_;
  Intents intents_;
  ChangeCharges charges_;
  KeyLocks readings_;
  std::atomic<bool> stopping_{false};
  bool ending_ = false;  // used on the thread of `io` only
};

}  // namespace verbena::store::rados
