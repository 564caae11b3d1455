// The first of two seams under the store's logic: ordered rows that change together. The other one is blobs.h. An
// engine supplies both; what versions, locks, conditions, uploads and listings mean is in logic/ and the same for all.
//
// Logic never waits. It looks at rows through a View and says what is to change through a Transaction, as plain
// functions that may be run again:
//  - A look that is not at hand fails with would_block, which the function passes on. The engine notes what was asked
//    for, fetches it and runs the function again. An engine with everything in memory never says it; one on a disk says
//    it on a loop's thread and runs the function again on a thread that may wait; one across a network collects all
//    that the function asks for and has it by the second run.
//  - A change is judged, then committed if nothing that the judge saw has changed meanwhile, else judged again. An
//  engine
//    with one writer holds the others off while it judges; one with many compares when it commits. What the judge asked
//    for and was not there may be guessed to be absent: the commit finds out.
// So a judge takes its input as it came, may run any number of times, and leaves its answer where the last run's
// counts.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/task.h"
#include "store/blob_ref.h"
#include "store/store.h"

namespace verbena::store {

class BlobWriter;
struct Bucket;

class Transaction;
using Judge = std::function<Result<void>(Transaction&)>;

// Rows are ordered by their keys' bytes within a table (logic/keys.h).
enum class Table : uint8_t {
  meta = 0,      // buckets and their documents
  objects = 1,   // heads of current objects
  uploads = 2,   // uploads, their parts, the part lists of finished objects, where null versions are
  versions = 3,  // heads that are not a key's current object: older versions, and delete markers
};
inline constexpr size_t table_count = 4;

// What a look or a change is about, so that an engine that spreads its rows knows where to turn: one key of a bucket
// (with all its versions, uploads and parts), or with an empty key the bucket as a whole; 0: the list of buckets.
struct Place {
  uint64_t bucket = 0;
  std::string_view key{};  // lives as long as the function that it comes with
  // What calls that read may see. sync: nothing that a power cut may still take back. As the bucket promises it.
  Durability shown = Durability::sync;
};

// Walks the rows whose keys start with a prefix, in order. Never looks behind them. would_block: valid() says no,
// status() says why, and where it stands it goes on when the rows have come.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual bool valid() const = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual void next() = 0;
  virtual void seek(std::string_view key) = 0;  // to the first row from `key` on
  virtual Result<void> status() const = 0;      // look here when valid() says no
};

class Moment;

// Rows as they are now: what one get() or cursor found and what the next one finds may be of different moments. What
// concludes something from more than one row, or from two tables, looks through a Moment.
class View {
 public:
  virtual ~View() = default;
  virtual Result<std::string> get(Table table, std::string_view key) = 0;  // not_found, would_block
  // On the first row from `from` on, or the first of all. Never null.
  virtual std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from = {}) = 0;
  // Never null. No longer used than the view.
  virtual std::unique_ptr<Moment> moment() = 0;
};

// Rows as they all were at one moment, not before moment() was called. Cursors of it may be used as long as it lives.
class Moment : public View {
 public:
  // An engine that fetches its rows in several calls cannot always hold on to the moment of the first: yes from the run
  // of the look on that would meet rows of another one. Nothing of this moment is to be had then, and all that it told
  // before is still right. The look ends with that, or opens another moment and begins anew.
  virtual bool lost() const { return false; }
  std::unique_ptr<Moment> moment() override;
};

// Another view that is of one moment as it is.
class SameMoment final : public Moment {
 public:
  explicit SameMoment(View& rows) : rows_(rows) {}
  Result<std::string> get(Table table, std::string_view key) override { return rows_.get(table, key); }
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    return rows_.cursor(table, std::move(prefix), from);
  }

 private:
  View& rows_;
};

inline std::unique_ptr<Moment> Moment::moment() { return std::make_unique<SameMoment>(*this); }

// A view whose looks see the changes made so far and are what the commit depends on. Of one run of a judge, and of one
// moment: that of the commit.
class Transaction : public View {
 public:
  std::unique_ptr<Moment> moment() override { return std::make_unique<SameMoment>(*this); }
  virtual void put(Table table, std::string_view key, std::string_view value) = 0;
  virtual void erase(Table table, std::string_view key) = 0;
  // The blob is no longer named: its bytes go when no reader holds them.
  void kill(const BlobRef& blob) {
    if (blob.size != 0 && blob.id == brought_) {
      contradicts_ = true;
    } else {
      kill_named(blob);
    }
  }
  // The bucket's record goes with this change. What nothing finds without it (its uploads, their parts) the engine
  // takes away piece by piece (logic/bucket_sweep.h), beside other changes and after a restart, too.
  virtual void abandon(uint64_t bucket) = 0;
  // What the change adds to the usage of its bucket (Change::bucket). An engine that keeps usage adds it up with the
  // change, whole or not at all.
  virtual void count(const Usage& /*change*/) {}
  virtual void count_from_zero(uint64_t /*bucket*/) {}  // of a bucket that is made with this change
  // A number that no other row of the place has or had, and greater than those of all changes committed there before.
  virtual Result<uint64_t> next_id() = 0;
  // An id that was made elsewhere comes to this place (logic/transfer.h). An engine whose ids are the whole store's is
  // told when all have come.
  virtual void take_id(uint64_t /*id*/) {}
  virtual int64_t now_us() const = 0;
  // Times of a key grow, whatever the clock does, over removals too (time_after() in logic/object_ops.h). A key whose
  // current object goes leaves the time of that; a later change of the key asks for it. 0: the engine knows of none.
  virtual Result<int64_t> left_us(uint64_t /*bucket*/, std::string_view /*key*/) { return 0; }
  virtual void leave_us(uint64_t /*bucket*/, std::string_view /*key*/, int64_t /*us*/) {}
  virtual uint64_t stamp() { return 0; }  // ObjectInfo's, that the key has after this change
  // Runs after the change is in the catalogue, before the answer.
  virtual void on_commit(std::function<void()> effect) = 0;

  // How an engine runs a judge; `blob`: Change::blob. internal: the change kills the blob that it brings, so that a row
  // would name bytes that go. No engine makes such a change, whatever its judge saw.
  Result<void> run(const Judge& judge, const BlobWriter* blob);
  bool contradicts() const { return contradicts_; }  // that is what the last run ended with

 protected:
  virtual void kill_named(const BlobRef& blob) = 0;

 private:
  uint64_t brought_ = 0;
  bool contradicts_ = false;
};

using Committed = std::move_only_function<void(Result<void>)>;

using Look = std::function<Result<void>(View&)>;

struct Change {
  Judge judge;  // nothing that it did is kept when it fails
  // Of which bucket: how durable the change is when it has been answered. Null: as durable as can be.
  std::shared_ptr<const Bucket> bucket;
  Place place;
  // What the change names for the first time: its bytes become the catalogue's with the change, and go without it.
  std::shared_ptr<BlobWriter> blob{};
  bool takes_space = false;  // refused when there is little left; removals are not
  // Others come within a moment that may become durable together with it: one sync is then enough for all.
  bool more_follow = false;
};

class Catalogue {
 public:
  virtual ~Catalogue() = default;
  // The rows that can be had without waiting. For any thread, as long as the catalogue.
  virtual View& at_hand(const Place& place) = 0;
  // Runs `look` until it says something other than would_block, and returns that. All runs have the same View, so a
  // cursor of the first may be used in the next. `reason`: a static string for metrics.
  virtual Task<Result<void>> read(const char* reason, Place place, Look look) = 0;
  // Returns when the change is made (and durable, in a sync bucket) or was refused. slow_down when there is too much to
  // do. After io_error and insufficient_storage the change is not visible and will not be, except that a crash may
  // bring it back, whole.
  virtual Task<Result<void>> commit(Change change) = 0;
  // The same without a coroutine: `then` is told once, within the call or later on the executor. Asked only of engines
  // whose Context has a whole_put_max.
  virtual void commit_then(Change /*change*/, boost::asio::any_io_executor /*executor*/, Committed then) {
    then(fail(Errc::unsupported, "catalogue: commits wait"));
  }
  // What was committed before the call is durable after it, whatever its bucket.
  virtual Task<Result<void>> sync() = 0;
};

}  // namespace verbena::store
