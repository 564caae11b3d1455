// The buckets in the cluster: record, epoch, tablets. A bucket's epoch is raised by every change that readers and
// writers of its rows must know: of its record, its tablets, its removal. The bucket's object gets the change and the
// new epoch in one call, which decides. Then each tablet gets the epoch, from the first server that accesses it; a call
// guarded by an earlier epoch fails, and its caller reads the bucket again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/logic/record.h"
#include "store/rados/cluster/cluster.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {

struct Tablet {
  std::string low;  // the lowest key of its range
  uint64_t number = 0;
  std::string object{};
};

// The phase of a bucket as a whole. While it is being removed its rows do not change; while a tablet is being split
// that tablet's rows do not, and while two are being joined theirs do not. While a key moves between two tablets, and
// when a join is about to be decided (`closing`), these are neither changed nor read. `removed`: decided and never
// undone.
enum class Phase : char {
  live = 'l',
  removing = 'r',
  splitting = 's',
  moving = 'm',
  joining = 'j',
  closing = 'k',
  removed = 'd',
};

// The change of the source's tablet after a key has moved to another one: any server can make it.
struct Move {
  uint64_t to = 0;  // the other tablet's number
  std::string version_token_row, version_token_seen;
  std::set<std::string> gone;
  std::map<std::string, std::string> sets;
};
std::string encode(const Move& move);
Result<Move> decode_move(std::string_view bytes);  // corrupt_object

struct BucketState {
  uint64_t id = 0;
  BucketRecord record;
  std::string row;  // the record in logic's form
  uint64_t epoch = 0;
  std::string epoch_text;
  Deadline read_at{};  // the cluster returned this epoch not later than this time
  Phase phase = Phase::live;
  // Letter, number of the tablet that is split, moved from or joined, the acting server; the move, or the other tablet.
  std::string phase_text;
  uint64_t phase_tablet = 0, phase_other = 0;
  std::string tokens;            // tokens of its last changes (fate.h)
  std::vector<Tablet> tablets;   // by their lowest key; the first one's is empty
  std::vector<uint64_t> joined;  // tablets without a name, whose rows are in others now

  size_t tablet_of(std::string_view stored) const;  // of a stored row
  bool may_change(const Tablet& tablet) const {
    if (phase == Phase::splitting) return tablet.number != phase_tablet;
    if (phase == Phase::joining) return !is_one_of_two(tablet);
    return may_read(tablet) && (phase == Phase::live || phase == Phase::moving || phase == Phase::closing);
  }
  bool may_read(const Tablet& tablet) const {
    return (phase != Phase::moving && phase != Phase::closing) || !is_one_of_two(tablet);
  }
  bool is_one_of_two(const Tablet& tablet) const {
    return tablet.number == phase_tablet || tablet.number == phase_other;
  }
  std::string phase_who() const { return phase_text.substr(9, 8); }
};
using BucketPtr = std::shared_ptr<const BucketState>;

// Rows of an object's omap, read completely or by page.
struct OmapReply {
  std::map<std::string, Buffer> rows;
  bool more = false;
  int rows_code = 0;
  Buffer epoch;
  int epoch_code = 0;
};

class Registry {
 public:
  explicit Registry(Cluster& cluster) : cluster_(cluster) {}

  BucketPtr find(uint64_t bucket) const;  // as last read; null: unknown
  void forget(uint64_t bucket);
  // Reads the bucket from the cluster. no_such_bucket.
  Task<Result<BucketPtr>> load(uint64_t bucket);
  // Call when an object of a bucket was not found. Success: the bucket is removed or being removed. corrupt_object: the
  // bucket exists, so the object is lost, which is logged.
  Task<Result<void>> check_removed(std::string name, uint64_t bucket);
  // Call after a call on `tablet` guarded by `seen` failed: returns the state to continue with.
  Task<Result<BucketPtr>> refresh(BucketPtr seen, std::string tablet);
  // Waits until that row may be changed (empty: the bucket as a whole); undoes phases that another server has
  // abandoned. slow_down.
  Task<Result<BucketPtr>> writable(BucketPtr seen, std::string stored);
  // Likewise until the rows with that prefix may be read.
  Task<Result<BucketPtr>> readable(BucketPtr seen, std::string stored);

  // Gives a free name to this bucket; false: another bucket has it, or naming was forbidden meanwhile. Also true if the
  // bucket had got the name and was removed since. service_unavailable: unknown. `fence`: from before the name was
  // looked up.
  Task<Result<bool>> give_name(std::string name, uint64_t bucket, std::string fence);
  // Changes whenever a name becomes free, which shows that a name found free may have been used since.
  Task<Result<std::string>> name_fence();
  // Forbids naming that bucket. False: it has a name, or had one.
  Task<Result<bool>> forbid_name(uint64_t bucket);
  // Frees the name of a bucket whose removal is decided; the bucket must be swept then.
  Task<Result<void>> forget_name(std::string name, uint64_t bucket);

  // Makes a new bucket's objects, which nothing names yet.
  Task<Result<void>> make(uint64_t bucket, std::string row);
  // Changes the bucket's object with the next epoch, then sets that epoch in all tablets. `fill` adds the changes.
  // conditional_conflict: the object differs from `from`.
  using Fill = std::function<void(librados::ObjectWriteOperation&)>;
  Task<Result<BucketPtr>> change(BucketPtr from, Fill fill);
  // Likewise, for changes that tablets need not know at once: documents, and the decision to remove the bucket. Also
  // raises the epoch, so that no late call can find its expected one again.
  Task<Result<void>> change_object(BucketPtr from, Fill fill);
  // Begins a phase with the next epoch, or fails with a conflict. A move concerns two tablets, and only these get the
  // epoch of its beginning and end. While the epoch stays, no server has undone or finished the phase. `who`: eight
  // bytes that name the doing; empty: random ones.
  Task<Result<BucketPtr>> set_phase(BucketPtr from, Phase phase, uint64_t tablet = 0, std::string more = "",
                                    std::string who = "");
  // Resolves an unfinished move of a key, by any server: finishes it if the other tablet has the key, else undoes it.
  // Returns whether it was finished. conditional_conflict: another server resolves it.
  Task<Result<bool>> settle_move(BucketPtr state);
  // Ends that move of this server, if the bucket is in it, however its calls have failed: while it stands, neither
  // tablet can be read. `sent`: the target's half was; if not, the phase is undone without a call on a tablet. Returns
  // whether the key was moved; conditional_conflict: another server has ended it.
  Task<Result<bool>> end_move(uint64_t bucket, std::string who, bool sent);
  // The source's half of a move. Whether it is done, by this call or before; false: the source was changed since.
  Task<Result<bool>> finish_move(BucketPtr state);

  // A number that was never used before: for a bucket, which may be named then, or for a process's incarnation.
  enum class For : uint8_t { bucket, life };
  Task<Result<uint64_t>> take_number(For what = For::life);

  // A page of an object's omap: the rows with `prefix`, after `after`. not_found: no such object.
  Task<Result<std::shared_ptr<OmapReply>>> page(std::string object, std::string after, std::string prefix);
  // The existing ones of these rows.
  Task<Result<std::map<std::string, std::string>>> rows(std::string object, std::set<std::string> names);
  // Empty: no such row.
  Task<Result<std::string>> row(std::string object, std::string name);
  // All rows, for objects with few.
  Task<Result<std::map<std::string, std::string>>> all(std::string object, std::string prefix);

  Cluster& cluster() { return cluster_; }

 private:
  Task<Result<void>> spread(BucketPtr state);
  Task<Result<void>> spread_to_two(BucketPtr of, BucketPtr state);
  Task<Result<void>> raise(std::string tablet, BucketPtr state);
  Task<Result<BucketPtr>> thaw(BucketPtr state);
  Task<Result<void>> end_phase(BucketPtr state);  // in the bucket's object
  Task<Result<bool>> undo_move(BucketPtr state);
  class Looking;
  using Free = std::function<bool(const BucketState&)>;
  Task<Result<BucketPtr>> wait_until(BucketPtr seen, Free free);
  Deadline first_seen(const std::string& phase);

  Cluster& cluster_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, BucketPtr> states_;  // guarded by mutex_, as the next
  std::map<std::string, Deadline> phases_seen_;
  std::set<uint64_t> looked_at_;  // buckets that one of the waiters is reading
};

Task<> pause(std::chrono::milliseconds time);

}  // namespace verbena::store::rados
