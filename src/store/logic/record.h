// Contents of rows: heads of objects, parts, uploads, buckets. codec.h defines their encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/blobs.h"
#include "store/store.h"

namespace verbena::store {

// The most bytes that an object or a part takes in the store, overhead included.
inline constexpr uint64_t stored_size_max = object_size_max + object_size_max / 1024;
inline constexpr uint64_t part_stored_size_max = part_size_max + part_size_max / 1024;

struct StoredPart {
  PartInfo info;
  BlobRef blob;
};

// The head of an object, or of one version of it: what HEAD and LIST need, nothing more. A multipart object's parts are
// a record of their own. Ids grow with each commit, so of a key's versions the newest has the highest. info.version_id
// is empty for a null version.
struct ObjectRecord {
  uint64_t id = 0;  // new for each commit
  ObjectInfo info;  // without parts
  BlobRef blob;     // when part_count is 0
  uint32_t part_count = 0;

  bool is_null() const { return info.version_id.empty(); }
};

struct UploadRecord {
  uint64_t id = 0;
  UploadInfo info;  // bucket, key and upload_id are in the index key
};

struct BucketRecord {
  uint64_t id = 0;
  BucketInfo info;
};

std::string encode(const ObjectRecord& record);
std::string encode(const std::vector<StoredPart>& parts);
std::string encode(const StoredPart& part);
std::string encode(const UploadRecord& record);
std::string encode(const BucketRecord& record);

// malformed for anything that encode() did not produce.
Result<ObjectRecord> decode_object(std::string_view bytes);
// What a listing shows of a head, without its stored_size; `info` is new. The head's other fields are checked likewise.
Result<void> decode_info(std::string_view bytes, ObjectInfo& info);
// What a sink gets of a head, as views of `bytes`. The head's other fields are checked likewise.
struct BriefHead : ListedHead {
  bool may_end = false;  // the name of an end's header is in it
};
Result<BriefHead> decode_brief(std::string_view bytes, const WantedOfHeads& wanted = {});
Result<std::vector<StoredPart>> decode_parts(std::string_view bytes);
// The parts of that object: corrupt_object when their number differs.
Result<std::vector<StoredPart>> decode_parts_of(const ObjectRecord& object, std::string_view bytes);
Result<StoredPart> decode_part(std::string_view bytes);
Result<UploadRecord> decode_upload(std::string_view bytes);
Result<BucketRecord> decode_bucket(std::string_view bytes);

}  // namespace verbena::store
