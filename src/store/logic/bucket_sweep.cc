#include "store/logic/bucket_sweep.h"

#include <utility>
#include <vector>

#include "store/logic/ends.h"
#include "store/logic/keys.h"
#include "store/logic/object_ops.h"
#include "store/logic/record.h"

namespace verbena::store {
namespace {

struct Head {
  Table table;
  std::string row;
  ObjectRecord record;
};

// Collected first, removed afterwards: a cursor must not lose rows under it.
struct Piece {
  std::vector<Head> heads;
  std::vector<std::string> rows;  // of uploads
  std::vector<BlobRef> blobs;
  size_t size = 0;  // rows and parts
  bool full() const { return size >= BucketSweep::rows_max; }
  void add(std::string_view row) {
    rows.emplace_back(row);
    ++size;
  }
};

// False: the piece was full before the last row, which `from` is then.
Result<bool> add_heads(View& rows, Table table, const std::string& prefix, std::string& from, Piece& piece) {
  const auto cursor = rows.cursor(table, prefix, from);
  for (; cursor->valid() && !piece.full(); cursor->next()) {
    VB_ASSIGN(ObjectRecord record, decode_object(cursor->value()));
    piece.size += 1 + record.part_count;
    piece.heads.push_back({table, std::string(cursor->key()), std::move(record)});
  }
  VB_TRY(cursor->status());
  from = cursor->valid() ? cursor->key() : std::string_view();
  return !cursor->valid();
}

// False: the piece was full before the upload's last part.
Result<bool> add_parts(View& rows, uint64_t upload, Piece& piece) {
  const auto parts = rows.cursor(Table::uploads, keys::part_prefix(upload));
  for (; parts->valid(); parts->next()) {
    if (piece.full()) return false;
    VB_ASSIGN(const StoredPart part, decode_part(parts->value()));
    piece.blobs.push_back(part.blob);
    piece.add(parts->key());
  }
  VB_TRY(parts->status());
  return true;
}

// False: the piece was full before the last upload, which `from` is then.
Result<bool> add_uploads(View& rows, uint64_t bucket, std::string& from, Piece& piece) {
  const auto uploads = rows.cursor(Table::uploads, keys::upload_prefix(bucket), from);
  for (; uploads->valid() && !piece.full(); uploads->next()) {
    VB_ASSIGN(const UploadRecord upload, decode_upload(uploads->value()));
    VB_ASSIGN(const bool whole, add_parts(rows, upload.id, piece));
    if (!whole) break;
    piece.add(uploads->key());
  }
  VB_TRY(uploads->status());
  from = uploads->valid() ? uploads->key() : std::string_view();
  return !uploads->valid();
}

// False: the piece was full before the last row.
Result<bool> add_rows(View& rows, const std::string& prefix, Piece& piece) {
  const auto cursor = rows.cursor(Table::uploads, prefix);
  for (; cursor->valid(); cursor->next()) {
    if (piece.full()) return false;
    piece.add(cursor->key());
  }
  VB_TRY(cursor->status());
  return true;
}

Result<void> remove_head(Transaction& transaction, uint64_t bucket, const Head& head) {
  // The list of its parts may be lost as the bucket's record is.
  if (auto buried = bury(transaction, head.record); !buried && !(buried.error() == Errc::not_found)) return buried;
  transaction.erase(head.table, head.row);
  if (head.table != Table::objects) return {};
  const std::string_view key = std::string_view(head.row).substr(keys::object_prefix_size);
  move_end(transaction, bucket, key, &head.record.info, nullptr);
  return {};
}

}  // namespace

Result<BucketSweep> BucketSweep::step(Transaction& transaction) const {
  Piece piece;
  BucketSweep next(*this);
  if (next.stage_ == Stage::objects) {
    VB_ASSIGN(const bool all, add_heads(transaction, Table::objects, keys::object_prefix(bucket_), next.from_, piece));
    if (all) next.stage_ = Stage::versions;
  }
  if (next.stage_ == Stage::versions) {
    VB_ASSIGN(const bool all,
              add_heads(transaction, Table::versions, keys::version_bucket(bucket_), next.from_, piece));
    if (all) next.stage_ = Stage::uploads;
  }
  if (next.stage_ == Stage::uploads) {
    VB_ASSIGN(const bool all, add_uploads(transaction, bucket_, next.from_, piece));
    if (all) next.stage_ = Stage::others;
  }
  bool all = next.stage_ == Stage::others;
  for (const std::string& prefix :
       {keys::null_version_prefix(bucket_), keys::rename_token_prefix(bucket_), keys::rename_age_prefix(bucket_)}) {
    if (!all) break;
    VB_ASSIGN(all, add_rows(transaction, prefix, piece));
  }
  if (all) next.stage_ = Stage::done;
  for (const Head& head : piece.heads) VB_TRY(remove_head(transaction, bucket_, head));
  for (const BlobRef& blob : piece.blobs) transaction.kill(blob);
  for (const std::string& row : piece.rows) transaction.erase(Table::uploads, row);
  return next;
}

}  // namespace verbena::store
