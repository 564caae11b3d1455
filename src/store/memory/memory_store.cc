#include "store/memory/memory_store.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "base/log.h"
#include "store/logic/bucket_sweep.h"
#include "store/logic/keys.h"
#include "store/logic/open.h"
#include "store/memory/heap_blobs.h"
#include "store/memory/tables.h"

namespace verbena::store::in_memory {

// Both seams of the engine. Changes are judged one after the other, so none is judged twice.
class Engine final : public Context, public Catalogue {
 public:
  explicit Engine(Options options) : options_(options), heap_(*options.arena, options.bytes_max) {
    rows = this;
    blobs = &heap_;
    clock = options_.clock;
    buckets.keep_ends(*clock);
    keeps_usage = true;
    keeps_events = true;
    tells_changes = true;
    whole_put_max = HeapBlob::block_size;
  }

  View& at_hand(const Place&) override { return view_; }
  Task<Result<void>> read(const char*, Place, Look look) override { co_return look(view_); }
  Task<Result<void>> commit(Change change) override { co_return commit_now(change); }
  void commit_then(Change change, boost::asio::any_io_executor, Committed then) override { then(commit_now(change)); }
  bool has_one_place() const override { return true; }
  Task<Result<void>> sync() override { co_return Result<void>{}; }

  MemoryStore::Usage usage() const {
    return {.blob_bytes = heap_.account().bytes.load(),
            .blobs = heap_.account().blobs.load(),
            .row_bytes = tables_.bytes(),
            .rows = tables_.count()};
  }

  Result<uint64_t> unnamed_blobs() {
    const std::shared_lock lock(tables_.mutex());
    VB_ASSIGN(const std::set<uint64_t> named, named_blobs());
    const auto there = heap_.ids();
    if (!std::ranges::includes(there, named)) return fail(Errc::corrupt_object, "store: a row names no blob");
    return there.size() - named.size();
  }

 private:
  Result<void> commit_now(Change& change) {
    std::vector<uint64_t> abandoned;
    auto done = apply(change, abandoned);
    for (const uint64_t bucket : abandoned) sweep(bucket);
    return done;
  }

  // Removes its uploads in pieces: other changes come in between.
  void sweep(uint64_t bucket) {
    BucketSweep at(bucket);
    while (!at.done()) {
      BucketSweep next(bucket);
      Change piece{.judge = [&at, &next](Transaction& transaction) -> Result<void> {
                     VB_ASSIGN(next, at.step(transaction));
                     return {};
                   },
                   .bucket = nullptr,
                   .place = {bucket}};
      std::vector<uint64_t> none;
      if (auto done = apply(piece, none); !done) {
        log::error("store: a removed bucket keeps its space: {}", describe(done.error()));
        return;
      }
      at = std::move(next);
    }
  }

  Result<void> apply(Change& change, std::vector<uint64_t>& abandoned) {
    std::vector<std::shared_ptr<const HeapBlob>> dead;  // freed without the lock
    const std::unique_lock lock(tables_.mutex());
    if (change.takes_space && !heap_.has_space(tables_.bytes())) {
      return fail(Errc::insufficient_storage, "store: the memory for objects is full");
    }
    TablesTransaction transaction(tables_, left_, last_id_, options_.clock->now_us(), &notes_);
    if (auto judged = transaction.run(change.judge, change.blob.get()); !judged) {
      transaction.take_back();
      return judged;
    }
    if (change.blob) heap_.add(*change.blob);
    for (const uint64_t id : transaction.dead()) dead.push_back(heap_.take(id));
    abandoned = transaction.abandoned();
    if (change.bucket) change.bucket->count(transaction.counted());
    transaction.run_effects();
    return {};
  }

  Result<std::set<uint64_t>> named_blobs() const {
    std::set<uint64_t> named;
    const auto add = [&named](const BlobRef& blob) {
      if (blob.size != 0) named.insert(blob.id);
    };
    for (const Table table : {Table::objects, Table::versions}) {
      for (const auto& [key, value] : tables_.rows(table)) {
        VB_ASSIGN(const ObjectRecord record, decode_object(value));
        if (record.part_count == 0) add(record.blob);
      }
    }
    for (const auto& [key, value] : tables_.rows(Table::uploads)) {
      if (keys::is_part(key)) {
        VB_ASSIGN(const StoredPart part, decode_part(value));
        add(part.blob);
      } else if (keys::is_object_parts(key)) {
        VB_ASSIGN(const auto parts, decode_parts(value));
        for (const StoredPart& part : parts) add(part.blob);
      }
    }
    return named;
  }

  const Options options_;
  Tables tables_;
  TablesView view_{tables_};
  HeapBlobs heap_;
  LeftTimes left_;
  // Guarded by the tables' mutex.
  uint64_t last_id_ = 0;
  TablesTransaction::Notes notes_;
};

MemoryStore::MemoryStore(Options options) : MemoryStore(std::make_shared<Engine>(options)) {}
MemoryStore::MemoryStore(std::shared_ptr<Engine> engine) : EngineStore(engine), engine_(std::move(engine)) {}
MemoryStore::~MemoryStore() = default;

MemoryStore::Usage MemoryStore::usage() const { return engine_->usage(); }
Result<uint64_t> MemoryStore::unnamed_blobs() const { return engine_->unnamed_blobs(); }

Task<Result<void>> MemoryStore::damage(std::string_view bucket, std::string_view key, uint64_t offset) {
  VB_CO_ASSIGN(auto reader, co_await open(bucket, key, std::string_view()));
  HeapBlobs::flip_bit(*reader, offset);
  co_return Result<void>{};
}

}  // namespace verbena::store::in_memory
