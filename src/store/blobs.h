// The second seam under the store's logic: runs of bytes that are written once, read in ranges into arena leases, and
// removed later. A blob belongs to nobody until a change of the catalogue names it (Change::blob), and is removed after
// a change has said so (Transaction::kill) as soon as no reader holds it.
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

// Of one core: all calls on the executor that made the first. Without a change that names the blob its space goes back.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual uint64_t size() const = 0;  // bytes appended
  virtual uint64_t id() const = 0;    // BlobRef's, after finish(); 0: of no bytes
  virtual Task<Result<void>> append(memory::Chunk chunk) = 0;
  // Waits for all writes. Once; then the writer is what Change::blob takes.
  virtual Task<Result<BlobRef>> finish() = 0;
};

class Blobs {
 public:
  virtual ~Blobs() = default;
  virtual std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) = 0;

  // A writer that has finished, of `bytes`, at least one: what `ref` says then is what finish() would have. Null: they
  // have to be waited for. Asked only of engines whose Context has a whole_put_max.
  virtual std::shared_ptr<BlobWriter> create_whole(const Bucket& /*bucket*/, Bytes /*bytes*/, BlobRef& /*ref*/) {
    return nullptr;
  }

  // An object's reader: `blobs` are its bytes, end to end, and are held as long as it lives. `name`: for the log.
  // `rows`: the view that the object was found in; would_block as its looks. Null: some of it was removed before it was
  // held.
  virtual Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                                     std::span<const BlobRef> blobs) = 0;

  // Readers of large objects that the engine may keep open for the next request, found only for the very head that they
  // were opened with. A kept reader does not hold up a removal.
  virtual std::shared_ptr<ObjectReader> find_kept(uint64_t /*object*/, std::string_view /*head*/) { return nullptr; }
  virtual void keep(uint64_t /*object*/, std::string /*head*/, const std::shared_ptr<ObjectReader>& /*reader*/) {}
  virtual void let_go(const std::shared_ptr<ObjectReader>& /*reader*/) {}  // of one that keep() took
};

}  // namespace verbena::store
