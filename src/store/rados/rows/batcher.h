// Batches changes of a tablet's keys into calls: the cluster serializes changes of an object, and one of a hundred keys
// costs little more than one of a single key. Changes that arrive during a call wait for the next one.
//
// Their usage is added in the same call, in a row of the tablet is gone that only this process writes: the call
// compares the row's old value, so that after a call of unknown outcome the row shows what has been counted. Likewise
// each call stores its token in a row that only this process writes, which shows whether it was made (fate.h): a
// process has one call at a time on a tablet, so the last token suffices.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/rados/cluster/cluster.h"
#include "store/usage.h"

namespace verbena::store::rados {

// A change of one key, or of two. It is made only if the version tokens are as seen (empty: absent).
struct Part {
  std::map<std::string, std::string> version_tokens;
  std::optional<std::string> fence{};  // with an absent version token: the tablet's fence when the token was read
  std::map<std::string, std::string> sets;
  std::set<std::string> gone;
  size_t bytes = 0;
  Usage counted{};
  bool sets_end = false;  // EndRows::mark() must have been called for the bucket
};

class Batcher {
 public:
  // Receives this process's changes of a bucket's usage, before the change is answered. On the thread of `io`.
  using Count = std::function<void(uint64_t bucket, const Usage& change)>;
  // `io` must run as long as a change waits.
  Batcher(Cluster& cluster, boost::asio::io_context& io, Count count)
      : cluster_(cluster), io_(io), count_(std::move(count)) {}
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }  // call before the first commit

  struct Outcome {
    // As for Cluster::write(). -ECANCELED: the epoch or a version token differs (perhaps of another key in the call),
    // and nothing was or will be changed.
    int code = 0;
    // On failure: the change may have been made, or may still be made. So it is after any code that does not prove the
    // contrary.
    bool unsure = false;
  };
  struct Target {
    std::string tablet;  // the tablet's object
    uint64_t bucket = 0;
    std::string epoch{};
  };
  // At most one change of a key at a time. `alone`: not in a batch, where other changes' version tokens may fail.
  Task<Outcome> commit(Target target, Part part, bool alone);
  // What this process's changes have made of a tablet's usage. On the thread of `io`.
  Usage counted_in(const std::string& tablet);
  // Call after this process was suspended: others may have taken over its counts.
  void recount();

 private:
  struct Waiting {
    std::string epoch;
    Part part;
    bool alone;
    std::function<void(Outcome)> done;
  };
  // This process's counts in a tablet. Used by the task that drains its queue, except `stale`.
  struct Tally {
    explicit Tally(uint64_t of) : bucket(of) {}
    const uint64_t bucket;
    Usage counted{};
    std::string row{}, receipt{};   // in stored form
    bool gone = false;              // the tablet
    std::atomic<bool> stale{true};  // must be read again before use
  };
  void add(const Target& target, Waiting waiting);
  std::vector<Waiting> take(const std::string& tablet);
  std::shared_ptr<Tally> tally_of(const std::string& tablet);
  Task<> drain(std::string tablet);
  Task<int> read(std::string tablet, Tally& tally);
  Task<int> begin_receipt(std::string tablet, std::string epoch, Tally& tally);
  struct Call;
  static librados::ObjectWriteOperation make_op(const Call& call, size_t& bytes);
  Task<Outcome> send(std::string tablet, const std::vector<Waiting>& batch, Tally& tally);
  Task<Outcome> settle(std::string tablet, Tally& tally, uint64_t token, Outcome outcome);

  Cluster& cluster_;
  boost::asio::io_context& io_;
  const Count count_;
  uint64_t incarnation_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::deque<Waiting>> queues_;      // guarded by mutex_; an existing queue is being drained
  std::map<std::string, std::shared_ptr<Tally>> tallies_;  // likewise
};

}  // namespace verbena::store::rados
