// Changes of a tablet's keys, many in one call: the cluster makes one change of an object after the other, and one of
// a hundred keys costs little more than one of a single key. While a call is under way, those that come collect.
//
// What they add to the bucket's usage goes with them, into a row of the tablet that only this process writes: the call
// is guarded by what the row was, so that after a call of unknown outcome the row itself says what has been counted.
// Likewise each call leaves its token in a row that only this process writes, which says whether it was made (fate.h):
// there is one call of a process on a tablet at a time, so the last token is enough.
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

// One key's change, or one of two keys. Nothing of it happens unless the version tokens are as they were seen (empty:
// absent).
struct Part {
  std::map<std::string, std::string> version_tokens;
  std::optional<std::string> fence{};  // with an absent version token: the tablet's, as it was when that was looked for
  std::map<std::string, std::string> sets;
  std::set<std::string> gone;
  size_t bytes = 0;
  Usage counted{};
};

class Batcher {
 public:
  // What this process has changed of a bucket's usage: before the change is answered. On the thread of `io`.
  using Count = std::function<void(uint64_t bucket, const Usage& change)>;
  // `io`: runs as long as anybody waits.
  Batcher(Cluster& cluster, boost::asio::io_context& io, Count count)
      : cluster_(cluster), io_(io), count_(std::move(count)) {}
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }  // before the first commit

  struct Outcome {
    // As Cluster::write()'s. -ECANCELED: a version token or the epoch is another one, be it of another key, and nothing
    // was changed, nor will be.
    int code = 0;
    bool unsure = false;  // with a failure: it may have been made, or may still be
  };
  struct Target {
    std::string tablet;  // its object
    uint64_t bucket = 0;
    std::string epoch{};
  };
  // At most one change of a key at a time. `alone`: not with others, whose version tokens may fail.
  Task<Outcome> commit(Target target, Part part, bool alone);
  // This process was away: others may have taken over what it had counted.
  void recount();

 private:
  struct Waiting {
    std::string epoch;
    Part part;
    bool alone;
    std::function<void(Outcome)> done;
  };
  // What this process has counted of a tablet. Of the task that drains its queue, but for `stale`.
  struct Tally {
    explicit Tally(uint64_t of) : bucket(of) {}
    const uint64_t bucket;
    Usage counted{};
    std::string row{}, receipt{};   // as they are stored
    bool gone = false;              // the tablet
    std::atomic<bool> stale{true};  // to be read before it is used
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
  std::map<std::string, std::deque<Waiting>> queues_;      // guarded by mutex_; a queue that is there is being drained
  std::map<std::string, std::shared_ptr<Tally>> tallies_;  // likewise
};

}  // namespace verbena::store::rados
