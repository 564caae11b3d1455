// In-flight changes of buckets. Before a change is committed every server is told and records an intent: from then on
// it answers nothing of the bucket from memory, but reads it in the cluster, where all see the same. When the change is
// over every server reloads the bucket and answers from memory again. README.md says why there is no gap.
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
    std::function<Task<Result<void>>(Notice)> tell;            // returns when every server has heard
    std::function<Task<Result<void>>(std::string name)> read;  // the bucket of that name into memory, as it is now
    std::function<Task<Result<void>>()> read_all;              // likewise all of them
    std::function<void(std::string_view name)> forget_kept;    // its objects that are answered from memory
    std::function<void()> on_change;                           // what the rooms above cached of buckets is old
    std::function<bool()> fresh;
  };
  InFlightChanges(Registry& registry, boost::asio::io_context& io, std::chrono::milliseconds intent_lasts,
                  Helpers helpers)
      : registry_(registry), io_(io), intent_lasts_(intent_lasts), helpers_(std::move(helpers)) {}

  // A change that this server makes: for one call of those below after the other.
  struct OwnChange {
    Intent intent{};
    bool told = false;    // others may have recorded the intent
    bool unsure = false;  // it was sent to the cluster, which did not say what became of it
    ChangeCharges::Held charge{};
  };
  // Returns when no server answers for the bucket from memory. To be called again when the change is judged anew.
  // service_unavailable: a server did not take note, and nothing may be changed; slow_down.
  struct Planned {
    uint64_t bucket = 0, epoch = 0;  // Intent's
    std::string name{}, owner{};
    bool renames = false;
  };
  Task<Result<void>> before(OwnChange& own, Planned planned);
  // `done`: what became of it. Returns when every server answers with that, and what is to be answered.
  Task<Result<void>> after(OwnChange& own, Result<void> done);

  // A notice of another server. limit_exceeded: there are too many intents.
  Task<Result<void>> hear(Notice notice);
  std::string told() const { return encode(intents_.list()); }  // for a server that begins to watch
  bool take(const std::vector<Intent>& intents);                // false: there are too many
  void set_all(bool doubtful) { intents_.set_all(doubtful); }

  // The bucket in memory may be answered from and cached.
  bool is_sure(std::string_view name) const { return !intents_.has(name); }
  bool has_intent(uint64_t bucket) const { return intents_.has(bucket); }
  // For a bucket with an intent: when this returns, memory has a state that was read after the call.
  Task<Result<void>> settle(std::string name);
  Task<Result<void>> settle_all();  // likewise of all buckets
  const Intents& intents() const { return intents_; }

  // To be called all the time, on the thread of `io`: ends intents that were never reported as over.
  void look();
  void stop() { stopping_ = true; }
  // Calls that wait for another's reading are woken no more: when the engine's calls have ended.
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
  bool ending_ = false;  // on the thread of `io` alone
};

}  // namespace verbena::store::rados
