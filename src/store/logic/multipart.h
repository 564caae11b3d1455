// Multipart uploads. A part is a blob of its own; completing names the parts' blobs in the object's list of parts and
// moves no byte.
#pragma once

#include "store/logic/context.h"
#include "store/logic/object_ops.h"

namespace verbena::store {

// 16 hex digits of the creation time, then 32 of randomness: sorts by age, fits a URL, cannot be guessed.
std::string make_upload_id(int64_t created_us);

// no_such_upload.
Result<UploadRecord> find_upload(View& rows, const Bucket& bucket, std::string_view key, std::string_view upload_id);
Result<PartPage> list_parts(View& rows, const UploadRecord& upload, int after_part, int max_parts);

// Likewise for a caller that changes it: in the bucket as it is now.
Result<UploadRecord> upload_in(Transaction& transaction, const Bucket& bucket, std::string_view key,
                               std::string_view upload_id);

Change create_upload_change(std::shared_ptr<const Bucket> bucket, std::shared_ptr<const UploadInfo> info);
Change abort_upload_change(std::shared_ptr<const Bucket> bucket, std::string key, std::string upload_id,
                           RemovalGroundsPtr grounds = {});

// The input of complete; the result is in `stored`.
struct Completion {
  std::shared_ptr<const Bucket> bucket;
  std::string key, upload_id;
  std::vector<PartInfo> parts;
  ObjectInfo info;
  CommitConditions conditions;
  ObjectInfo stored{};
};
Change completion_change(std::shared_ptr<Completion> completion);

std::unique_ptr<ObjectWriter> make_part_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                               std::string key, std::string upload_id, int part_number,
                                               std::optional<uint64_t> size_hint);

}  // namespace verbena::store
