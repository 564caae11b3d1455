// The second seam under the store's logic: runs of bytes that are written once, read in ranges into arena leases, and
// removed later. A blob has no owner until a change of the catalogue names it (Change::blob). It is removed after a
// change has released it (Transaction::kill), as soon as no reader holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/task.h"
#include "store/blob_ref.h"
#include "store/catalogue.h"
#include "store/store.h"

namespace verbena::store {

// A writer of one core: all calls on the executor that made the first. If no change names the blob, its space is freed.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual uint64_t size() const = 0;  // bytes appended so far
  virtual uint64_t id() const = 0;    // BlobRef's id, after finish(); 0 for an empty blob
  virtual Task<Result<void>> append(memory::Chunk chunk) = 0;
  virtual std::optional<uint32_t> crc32c() const { return std::nullopt; }  // as ObjectWriter's, until finish()
  // Waits for all writes. Called once; after it the writer can be passed as Change::blob.
  virtual Task<Result<BlobRef>> finish() = 0;
};

class Blobs {
 public:
  virtual ~Blobs() = default;
  virtual std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) = 0;

  // A finished writer of `bytes` (at least one), made without waiting; `ref` is set to what finish() would return.
  // Null: the write has to wait. Called only on engines whose Context has a whole_put_max.
  virtual std::shared_ptr<BlobWriter> create_whole(const Bucket& /*bucket*/, Bytes /*bytes*/, BlobRef& /*ref*/) {
    return nullptr;
  }

  // Opens a reader for an object: `blobs` are its bytes, end to end, held as long as the reader lives. `name` is for
  // the log. `rows` is the view in which the object was found; fails with would_block as its looks do. Null: a blob was
  // removed before it could be held.
  virtual Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                                     std::span<const BlobRef> blobs) = 0;

  // Readers of large objects that the engine may keep open for the next request, found only by the same head that they
  // were opened with. A kept reader does not delay a removal.
  virtual std::shared_ptr<ObjectReader> find_kept(uint64_t /*object*/, std::string_view /*head*/) { return nullptr; }
  virtual void keep(uint64_t /*object*/, std::string /*head*/, const std::shared_ptr<ObjectReader>& /*reader*/) {}
  virtual void let_go(const std::shared_ptr<ObjectReader>& /*reader*/) {}  // releases a reader that keep() took
};

}  // namespace verbena::store
