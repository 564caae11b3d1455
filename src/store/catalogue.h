// The first of two seams under the store's logic: ordered rows that change together. The other one is blobs.h. An
// engine supplies both; what versions, locks, conditions, uploads and listings mean is in logic/ and the same for all.
//
// Logic never waits. It reads rows through a View (a *look*) and describes changes through a Transaction (a *judge*),
// as plain functions that may run again:
//  - A look at rows that are not at hand fails with would_block, which the function passes on. The engine records the
//    request, fetches the rows and runs the function again. An engine with everything in memory never returns it; one
//    on a disk returns it on a loop's thread and runs the function again on a thread that may wait; one across a
//    network collects all requests of the function and has the rows by the second run.
//  - A change is judged, then committed if nothing that the judge saw has changed meanwhile, else judged again. An
//    engine with one writer excludes the others while it judges; one with many compares at the commit. A row that the
//    judge asked for and that was not at hand may be assumed absent: the commit verifies it.
// So a judge does not consume its input, may run any number of times, and only the answer of its last run counts.
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

// What a look or a change is about, so that an engine that spreads its rows can route it: one key of a bucket (with all
// its versions, uploads and parts), or with an empty key the bucket as a whole; 0: the list of buckets.
struct Place {
  uint64_t bucket = 0;
  std::string_view key{};  // lives as long as the function that it comes with
  // The durability of what a read may see. sync: nothing that a power cut could still undo. The bucket's own promise.
  Durability shown = Durability::sync;
};

// Walks the rows whose keys start with a prefix, in order, and never past them. On would_block valid() is false,
// status() has the error, and the cursor continues from its position once the rows are there.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual bool valid() const = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;  // the same bytes at the same place until the cursor moves
  virtual void next() = 0;
  virtual void seek(std::string_view key) = 0;  // to the first row from `key` on
  virtual Result<void> status() const = 0;      // why valid() is false
};

class Moment;

// Rows as they are now: two calls of get(), or two cursors, may see different moments. A conclusion from more than one
// row, or from two tables, needs a Moment.
class View {
 public:
  virtual ~View() = default;
  virtual Result<std::string> get(Table table, std::string_view key) = 0;  // not_found, would_block
  // A cursor at the first row from `from` on, or at the first of all. Never null.
  virtual std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from = {}) = 0;
  // Never null. Must not outlive the view.
  virtual std::unique_ptr<Moment> moment() = 0;
};

// All rows as of one moment, not before moment() was called. Its cursors may be used as long as it lives.
class Moment : public View {
 public:
  // True once the moment could not be held: an engine that fetches rows in several calls may meet rows of a later
  // moment. Nothing more can be read from this moment then; everything read before stays right. The look ends with what
  // it has read, or opens another moment and begins again.
  virtual bool lost() const { return false; }
  std::unique_ptr<Moment> moment() override;
};

// A Moment over a view that is of one moment already.
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

// A view that sees the changes made so far, and whose looks are what the commit depends on. For one run of a judge, as
// of one moment: that of the commit.
class Transaction : public View {
 public:
  std::unique_ptr<Moment> moment() override { return std::make_unique<SameMoment>(*this); }
  virtual void put(Table table, std::string_view key, std::string_view value) = 0;
  virtual void erase(Table table, std::string_view key) = 0;
  // Releases the blob: its bytes are removed when no reader holds them.
  void kill(const BlobRef& blob) {
    if (blob.size != 0 && blob.id == brought_) {
      contradicts_ = true;
    } else {
      kill_named(blob);
    }
  }
  // Removes the bucket's record with this change. Rows that cannot be found without it (its uploads, their parts) are
  // removed by the engine in pieces (logic/bucket_sweep.h), beside other changes and after a restart, too.
  virtual void abandon(uint64_t bucket) = 0;
  // Adds to the usage of the change's bucket (Change::bucket). An engine that keeps usage applies it with the change,
  // whole or not at all.
  virtual void count(const Usage& /*change*/) {}
  virtual void count_from_zero(uint64_t /*bucket*/) {}  // of a bucket that this change creates
  // A number that no other row of the place has or had, greater than those of all changes committed there before.
  virtual Result<uint64_t> next_id() = 0;
  // Registers an id that was made elsewhere (logic/transfer.h). An engine whose ids are store-wide is called once all
  // have arrived.
  virtual void take_id(uint64_t /*id*/) {}
  virtual int64_t now_us() const = 0;
  // The time at which the key's current object was removed; 0: not recorded. A later change of the key needs it,
  // because times of a key grow whatever the clock does, over removals too (time_after() in logic/object_ops.h).
  virtual Result<int64_t> left_us(uint64_t /*bucket*/, std::string_view /*key*/) { return 0; }
  virtual void leave_us(uint64_t /*bucket*/, std::string_view /*key*/, int64_t /*us*/) {}
  virtual uint64_t stamp() { return 0; }  // ObjectInfo::stamp of the key after this change
  // Runs after the change is in the catalogue, before the answer.
  virtual void on_commit(std::function<void()> effect) = 0;

  // Runs a judge, for engines; `blob`: Change::blob. internal: the change kills the blob that it brings, so that a row
  // would name removed bytes. No engine commits such a change.
  Result<void> run(const Judge& judge, const BlobWriter* blob);
  bool contradicts() const { return contradicts_; }  // whether the last run ended with that error

 protected:
  virtual void kill_named(const BlobRef& blob) = 0;

 private:
  uint64_t brought_ = 0;
  bool contradicts_ = false;
};

using Committed = std::move_only_function<void(Result<void>)>;

using Look = std::function<Result<void>(View&)>;

struct Change {
  Judge judge;  // nothing of it is kept when it fails
  // The bucket, which decides how durable the change is when it is answered. Null: the highest durability.
  std::shared_ptr<const Bucket> bucket;
  Place place;
  // The blob that the change names for the first time: its bytes are committed with the change, and freed without it.
  std::shared_ptr<BlobWriter> blob{};
  bool takes_space = false;  // refused when space is low; removals are not
  // A hint that more changes follow within a moment, so that one sync can cover all of them.
  bool more_follow = false;
};

class Catalogue {
 public:
  virtual ~Catalogue() = default;
  // The rows that are available without waiting. For any thread, as long as the catalogue.
  virtual View& at_hand(const Place& place) = 0;
  // Runs `look` until it returns something other than would_block, and returns that. All runs have the same View, so a
  // cursor of the first may be used in the next. `reason`: a static string for metrics.
  virtual Task<Result<void>> read(const char* reason, Place place, Look look) = 0;
  // Returns when the change is made (and durable, in a sync bucket) or was refused. slow_down: too many changes are
  // queued. After io_error and insufficient_storage the change is not visible and will not become so, except that a
  // crash may bring it back, whole.
  virtual Task<Result<void>> commit(Change change) = 0;
  // commit() without a coroutine: `then` is called once, within the call or later on the executor. Called only on
  // engines whose Context has a whole_put_max.
  virtual void commit_then(Change /*change*/, boost::asio::any_io_executor /*executor*/, Committed then) {
    then(fail(Errc::unsupported, "catalogue: commits wait"));
  }
  // Whether one change may be about several keys, whatever its place.
  virtual bool has_one_place() const { return false; }
  // Makes everything committed before the call durable, whatever its bucket.
  virtual Task<Result<void>> sync() = 0;
  // Makes the rows committed before the call durable, whatever their bucket; not all bytes that they name. A `sync`
  // bucket's bytes are durable before its rows are.
  virtual Task<Result<void>> sync_rows() { return sync(); }
};

}  // namespace verbena::store
