// Parts of encrypted objects, as appends read, write and list them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/append_seal.h"
#include "store/blobs.h"
#include "store/logic/record.h"

namespace verbena::store {

// The list that an object with these parts was given; `listed`: it has a list of parts, else it is one part or empty.
// corrupt_object.
Result<std::vector<NumberedPart>> numbered_parts(const Attributes& object, bool listed,
                                                 const std::vector<StoredPart>& parts);

// The plain bytes of such parts, whose blobs `sealed` reads end to end.
Result<std::shared_ptr<ObjectReader>> open_sealed_parts(const AppendSeal& seal, const Secret& object_key,
                                                        const std::vector<StoredPart>& parts,
                                                        std::shared_ptr<ObjectReader> sealed, std::string name);

// Takes the plain bytes of one part, and the blob gets them sealed. Its commit() has sealed all; the blob is then still
// to be finished.
class SealedPartWriter {
 public:
  // `size`: how many bytes will come, if that is known.
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
