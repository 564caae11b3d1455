#include "store/local/catalogue.h"

#include <algorithm>

#include "store/local/blob_writer.h"
#include "store/local/engine.h"
#include "store/logic/usage.h"

namespace verbena::store::local {

Result<std::string> IndexTransaction::get(Table table, std::string_view key) {
  if (table != Table::meta) return batch().get(family(table), key);
  if (!bucket_row_key_.empty() && key == bucket_row_key_) return bucket_row_;
  VB_ASSIGN(bucket_row_, batch().get(Family::meta, key));
  bucket_row_key_ = key;
  return bucket_row_;
}

std::unique_ptr<store::Cursor> IndexTransaction::cursor(Table table, std::string prefix, std::string_view from) {
  auto cursor = std::make_unique<Cursor>(batch().cursor(family(table), std::move(prefix)));
  if (!from.empty()) cursor->seek(from);
  return cursor;
}

void IndexTransaction::kill_named(const BlobRef& blob) {
  switch (blob.kind) {
    case BlobKind::empty:
      return;
    case BlobKind::in_index:
      batch().erase_unread(Family::in_index, keys::in_index(blob.id));
      return;
    case BlobKind::extents:
      batch().put(Family::meta, keys::dead(blob.id), "");
      dead_.push_back(blob.id);
      return;
  }
}

void IndexTransaction::abandon(uint64_t bucket) {
  batch().put(Family::meta, keys::removed_bucket(bucket), "");
  batch().erase(Family::meta, keys::usage(bucket));
  abandoned_.push_back(bucket);
}

void IndexTransaction::count_from_zero(uint64_t bucket) {
  batch().put(Family::meta, keys::usage(bucket), encode(Usage()));
}

void IndexTransaction::keep_count(const std::shared_ptr<const Bucket>& bucket) {
  if (bucket != nullptr && (counted_ != Usage() || completes_)) {
    auto own = std::ranges::find(usage_, bucket, &Counted::bucket);
    if (own == usage_.end()) own = usage_.insert(own, Counted{.bucket = bucket, .change = {}});
    own->change += counted_;
    own->completes |= completes_;
  }
  forget_count();
}

void IndexTransaction::roll_back() {
  batch().roll_back();
  forget_bucket_row();  // the cached row may be of the rolled-back part
  forget_count();
}

void IndexTransaction::forget_count() {
  counted_ = {};
  completes_ = false;
}

// The numbers in memory are those of the last written batch: all changes of a bucket pass through one queue.
void IndexTransaction::put_usage() {
  for (const Counted& counted : usage_) {
    const Bucket& bucket = *counted.bucket;
    if (bucket.uncounted.load() && !counted.completes) continue;
    if (std::ranges::find(abandoned_, bucket.id) != abandoned_.end()) continue;
    batch().put(Family::meta, keys::usage(bucket.id), encode(bucket.committed.read() + counted.change));
  }
}

IndexCatalogue::IndexCatalogue(Engine& engine)
    : engine_(engine),
      at_hand_{{*engine.index, Tier::cached, Visible::newest}, {*engine.index, Tier::cached, Visible::durable}},
      disk_{{*engine.index, Tier::disk, Visible::newest}, {*engine.index, Tier::disk, Visible::durable}} {}

// Everything in memory was tried already: the rest goes to a thread.
Task<Result<void>> IndexCatalogue::read(const char* reason, Place place, Look look) {
  auto work = [engine = engine_.shared_from_this(), &rows = disk_[shown(place)], look = std::move(look)] {
    return look(rows);
  };
  return engine_.pool().run(reason, std::move(work));
}

namespace {

Mutation mutation_of(Change change) {
  Mutation mutation{.judge = std::move(change.judge),
                    .blob = std::static_pointer_cast<VolumeBlobWriter>(std::move(change.blob)),
                    .runs = {},
                    .bucket = std::move(change.bucket),
                    .takes_space = change.takes_space,
                    .more_follow = change.more_follow};
  if (mutation.blob) mutation.runs = mutation.blob->take_runs();
  return mutation;
}

}  // namespace

Task<Result<void>> IndexCatalogue::commit(Change change) {
  return engine_.committer->submit(mutation_of(std::move(change)));
}

void IndexCatalogue::commit_then(Change change, boost::asio::any_io_executor executor, Committed then) {
  engine_.committer->submit(mutation_of(std::move(change)), std::move(executor), std::move(then));
}

Task<Result<void>> IndexCatalogue::sync() {
  auto work = [engine = engine_.shared_from_this()]() -> Result<void> {
    VB_TRY(engine->volumes->sync_written_behind());
    return engine->index->sync();
  };
  return engine_.pool().run("durability change", std::move(work));
}

Task<Result<void>> IndexCatalogue::sync_rows() {
  auto work = [engine = engine_.shared_from_this()]() -> Result<void> { return engine->index->sync(); };
  return engine_.pool().run("event read", std::move(work));
}

}  // namespace verbena::store::local
