// Parts of encrypted objects, as appends read, write and list them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/append_seal.h"
#include "store/blobs.h"
#include "store/logic/record.h"

namespace verbena::store {

// The authenticated list of an object with these parts; `listed`: it has a list of parts, else it is one part or empty.
// corrupt_object.
Result<std::vector<NumberedPart>> numbered_parts(const Attributes& object, bool listed,
                                                 const std::vector<StoredPart>& parts);

// A reader of the plain bytes of such parts, whose blobs `sealed` reads end to end.
Result<std::shared_ptr<ObjectReader>> open_sealed_parts(const AppendSeal& seal, const Secret& object_key,
                                                        const std::vector<StoredPart>& parts,
                                                        std::shared_ptr<ObjectReader> sealed, std::string name);

// Encrypts the plain bytes of one part into a blob. After commit() everything is encrypted; the blob is still to be
// finished.
class SealedPartWriter {
 public:
  // `size`: how many bytes will come, if known.
  SealedPartWriter(const AppendSeal& seal, const Secret& object_key, std::shared_ptr<BlobWriter> blob,
                   std::optional<uint64_t> size);
  Task<Result<void>> append(memory::Chunk chunk) { return writer_->append(std::move(chunk)); }
  // The attributes of the part.
  Task<Result<Attributes>> commit(uint64_t size);

 private:
  Salt salt_;
  std::unique_ptr<ObjectWriter> writer_;
};

}  // namespace verbena::store
