#include "store/logic/bucket_sweep.h"

#include <vector>

#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store {
namespace {

struct Piece {
  std::vector<std::string> rows;
  std::vector<BlobRef> blobs;
  bool full() const { return rows.size() >= BucketSweep::rows_max; }
};

// False: the piece was full before the upload's last part.
Result<bool> add_parts(View& rows, uint64_t upload, Piece& piece) {
  const auto parts = rows.cursor(Table::uploads, keys::part_prefix(upload));
  for (; parts->valid(); parts->next()) {
    if (piece.full()) return false;
    VB_ASSIGN(const StoredPart part, decode_part(parts->value()));
    piece.blobs.push_back(part.blob);
    piece.rows.emplace_back(parts->key());
  }
  VB_TRY(parts->status());
  return true;
}

// False: the piece was full before the last row.
Result<bool> add_rows(View& rows, const std::string& prefix, Piece& piece) {
  const auto cursor = rows.cursor(Table::uploads, prefix);
  for (; cursor->valid(); cursor->next()) {
    if (piece.full()) return false;
    piece.rows.emplace_back(cursor->key());
  }
  VB_TRY(cursor->status());
  return true;
}

}  // namespace

Result<BucketSweep> BucketSweep::step(Transaction& transaction) const {
  Piece piece;
  // Collected first, removed afterwards: a cursor must not lose rows under it.
  const auto uploads = transaction.cursor(Table::uploads, keys::upload_prefix(bucket_), from_);
  for (; uploads->valid() && !piece.full(); uploads->next()) {
    VB_ASSIGN(const UploadRecord upload, decode_upload(uploads->value()));
    VB_ASSIGN(const bool whole, add_parts(transaction, upload.id, piece));
    if (!whole) break;
    piece.rows.emplace_back(uploads->key());
  }
  VB_TRY(uploads->status());
  BucketSweep next(bucket_);
  next.done_ = !uploads->valid();
  if (!next.done_) next.from_ = uploads->key();
  for (const std::string& prefix : {keys::rename_token_prefix(bucket_), keys::rename_age_prefix(bucket_)}) {
    if (!next.done_) break;
    VB_ASSIGN(next.done_, add_rows(transaction, prefix, piece));
    if (!next.done_) next.from_ = keys::upload_prefix(bucket_);  // no uploads are left
  }
  for (const BlobRef& blob : piece.blobs) transaction.kill(blob);
  for (const std::string& row : piece.rows) transaction.erase(Table::uploads, row);
  return next;
}

}  // namespace verbena::store
