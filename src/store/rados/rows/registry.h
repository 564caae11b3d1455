// The buckets as the cluster has them: record, epoch, tablets. A bucket's epoch goes up whenever something changes
// that all readers and writers of its rows must know: its record, its tablets, its removal. First the bucket's object
// gets the new epoch together with the change, in one call; that decides. Then each tablet gets it, by the first server
// that comes; a call that is guarded by an epoch of before fails, and its maker reads the bucket anew.
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
  std::string low;  // the first key that may lie in it
  uint64_t number = 0;
  std::string object{};
};

// What happens to a bucket as a whole. While it is removed none of its rows changes, and while a tablet is split
// none of that tablet's. While a key is moved from one tablet to another the two are neither changed nor read.
// `removed`: decided, and never undone.
enum class Phase : char { live = 'l', removing = 'r', splitting = 's', moving = 'm', removed = 'd' };

// What the source's tablet gets when a key has been moved to another one: the server that moves it is not needed for
// that.
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
  std::string row;  // the record as logic reads it
  uint64_t epoch = 0;
  std::string epoch_text;
  Deadline read_at{};  // by then the cluster had answered with that epoch
  Phase phase = Phase::live;
  std::string phase_text;  // letter, number of the tablet that is split or moved from, the server; the move
  uint64_t phase_tablet = 0, phase_other = 0;
  std::string tokens;           // of its last changes (fate.h)
  std::vector<Tablet> tablets;  // by their lowest key; the first one's is empty

  size_t tablet_of(std::string_view stored) const;  // of a row
  bool may_change(const Tablet& tablet) const {
    return may_read(tablet) && (phase == Phase::live || phase == Phase::moving ||
                                (phase == Phase::splitting && tablet.number != phase_tablet));
  }
  bool may_read(const Tablet& tablet) const {
    return phase != Phase::moving || (tablet.number != phase_tablet && tablet.number != phase_other);
  }
  std::string phase_who() const { return phase_text.substr(9, 8); }
};
using BucketPtr = std::shared_ptr<const BucketState>;

// What omap has of an object, for the calls that read all or one page of it.
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

  BucketPtr find(uint64_t bucket) const;  // as it was last read; null: not known
  void forget(uint64_t bucket);
  // As the cluster has it now. no_such_bucket.
  Task<Result<BucketPtr>> load(uint64_t bucket);
  // An object of the bucket that had this name was not found. Nothing: the bucket is removed, or decided to go.
  // corrupt_object: it stands, and the object is lost; said in the log, too.
  Task<Result<void>> check_removed(std::string name, uint64_t bucket);
  // After a call on `tablet` failed that was guarded by `seen`: what to go on with.
  Task<Result<BucketPtr>> refresh(BucketPtr seen, std::string tablet);
  // Waits until that row may be changed, or with an empty one the bucket as a whole; undoes what another server began
  // and left. slow_down.
  Task<Result<BucketPtr>> writable(BucketPtr seen, std::string stored);
  // Likewise until what starts with that row may be read.
  Task<Result<BucketPtr>> readable(BucketPtr seen, std::string stored);

  // A name that no bucket has becomes this one's; false: another one has it, or it was forbidden meanwhile. Also true
  // where it had become so, and the bucket was removed since. service_unavailable: unknown.
  // `fence`: as it was before the name was looked for.
  Task<Result<bool>> give_name(std::string name, uint64_t bucket, std::string fence);
  // Changes whenever a name becomes free: a server that found a name unused finds out that it was used since.
  Task<Result<std::string>> name_fence();
  // That bucket gets no name any more, unless it has one, or had: false.
  Task<Result<bool>> forbid_name(uint64_t bucket);
  // The name of a bucket that is decided to go is free; the bucket is to be swept.
  Task<Result<void>> forget_name(std::string name, uint64_t bucket);

  // A new bucket's objects: nothing names them yet.
  Task<Result<void>> make(uint64_t bucket, std::string row);
  // One change of the bucket's object and the next epoch, then the same epoch everywhere. `fill` says what else changes
  // there. conditional_conflict: it is not as `from` says any more.
  using Fill = std::function<void(librados::ObjectWriteOperation&)>;
  Task<Result<BucketPtr>> change(BucketPtr from, Fill fill);
  // Likewise, for what the tablets need not know soon: documents, and that the bucket is to go. With the next epoch,
  // too, so that no such call that comes late finds its own again.
  Task<Result<void>> change_object(BucketPtr from, Fill fill);
  // The next epoch is this phase's, or there is a conflict: as long as it is, no server has undone or finished what it
  // is for.
  Task<Result<BucketPtr>> set_phase(BucketPtr from, Phase phase, uint64_t tablet = 0, std::string more = "");
  // Ends a move of a key that any server began: completes it if the other tablet has the key, else undoes it. Whether
  // it was completed. conditional_conflict: another server does that.
  Task<Result<bool>> settle_move(BucketPtr state);
  // The source's half. Whether it is done, by this call or before; false: the source was changed since.
  Task<Result<bool>> finish_move(BucketPtr state);

  // A number that was never given: of a bucket, which may be given a name then, or of a process's life.
  enum class For : uint8_t { bucket, life };
  Task<Result<uint64_t>> take_number(For what = For::life);

  // A page of an object's omap: the rows that start with `prefix`, behind `after`. not_found: no such object.
  Task<Result<std::shared_ptr<OmapReply>>> page(std::string object, std::string after, std::string prefix);
  // Those of them that there are.
  Task<Result<std::map<std::string, std::string>>> rows(std::string object, std::set<std::string> names);
  // Empty: there is none.
  Task<Result<std::string>> row(std::string object, std::string name);
  // All of them: for what has few.
  Task<Result<std::map<std::string, std::string>>> all(std::string object, std::string prefix);

  Cluster& cluster() { return cluster_; }

 private:
  Task<Result<void>> spread(BucketPtr state);
  Task<Result<void>> raise(std::string tablet, BucketPtr state);
  Task<Result<BucketPtr>> thaw(BucketPtr state);
  class Looking;
  using Free = std::function<bool(const BucketState&)>;
  Task<Result<BucketPtr>> wait_until(BucketPtr seen, Free free);
  Deadline first_seen(const std::string& phase);

  Cluster& cluster_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, BucketPtr> states_;  // guarded by mutex_, as the next
  std::map<std::string, Deadline> phases_seen_;
  std::set<uint64_t> looked_at_;  // by one of those that wait for the bucket
};

Task<> pause(std::chrono::milliseconds time);

}  // namespace verbena::store::rados
