#include "store/local/bucket_sweep.h"

#include "store/local/record.h"

namespace verbena::store::local {
namespace {

void bury(Batch& batch, const BlobRef& blob, std::vector<uint64_t>& dead) {
  if (blob.kind == BlobKind::in_index) batch.erase(Family::in_index, keys::in_index(blob.id));
  if (blob.kind != BlobKind::extents) return;
  batch.put(Family::meta, keys::dead(blob.id), "");
  dead.push_back(blob.id);
}

// False: the piece is full before the upload's last part.
Result<bool> bury_parts(Index& index, Batch& batch, uint64_t upload, std::vector<uint64_t>& dead) {
  Cursor parts = index.cursor(Family::uploads, keys::part_prefix(upload));
  for (; parts.valid(); parts.next()) {
    if (batch.changes() >= BucketSweep::changes_max) return false;
    VB_ASSIGN(const StoredPart part, decode_part(parts.value()));
    bury(batch, part.blob, dead);
    batch.erase(Family::uploads, parts.key());
  }
  VB_TRY(parts.status());
  return true;
}

}  // namespace

Result<std::vector<uint64_t>> BucketSweep::step(Index& index) {
  Batch batch(index);
  std::vector<uint64_t> dead;
  Cursor uploads = index.cursor(Family::uploads, keys::upload_prefix(bucket_), from_);
  for (; uploads.valid() && batch.changes() < changes_max; uploads.next()) {
    VB_ASSIGN(const UploadRecord upload, decode_upload(uploads.value()));
    VB_ASSIGN(const bool whole, bury_parts(index, batch, upload.id, dead));
    if (!whole) break;
    batch.erase(Family::uploads, uploads.key());
  }
  VB_TRY(uploads.status());
  const bool last = !uploads.valid();
  std::string next = last ? std::string() : std::string(uploads.key());
  if (last) batch.erase(Family::meta, keys::removed_bucket(bucket_));
  VB_TRY(index.write(batch));
  from_ = std::move(next);
  done_ = last;
  return dead;
}

}  // namespace verbena::store::local
