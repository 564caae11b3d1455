// Reads objects stored in stripes. Reads requested in one turn of a core, such as those of a transfer's read-ahead, are
// gathered: adjacent bytes of a stripe are fetched in one call, with their checksums.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/blobs.h"
#include "store/rados/bytes/stripes.h"
#include "store/read_runs.h"

namespace verbena::store::rados {

class StripeReads;

// Used on one core: all reads on the executor that made the first.
class StripeReader final : public ObjectReader, public ReadsRuns {
 public:
  StripeReader(BlobSpace& space, std::shared_ptr<const void> hold, std::string name, ObjectInfo info);
  ~StripeReader() override;

  // outdated: a small blob was removed, and the object must be looked up again.
  enum class Prepared : uint8_t { ready, outdated };
  // Call before the first read. would_block.
  Result<Prepared> prepare(Rows& rows, std::span<const BlobRef> blobs);

  const ObjectInfo& info() const override { return info_; }
  uint64_t run_bytes() const override { return stripe_size; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override;

 private:
  struct Piece {
    BlobRef blob;
    uint64_t start = 0;  // in the object
  };
  std::vector<Piece>::const_iterator piece_at(uint64_t offset) const;

  BlobSpace& space_;
  const ObjectInfo info_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::string> small_;
  const std::shared_ptr<StripeReads> reads_;
};

}  // namespace verbena::store::rados
