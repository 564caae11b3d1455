// Steps that the verbs share when they change the catalogue. All run inside a judge.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/catalogue.h"
#include "store/logic/bucket.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store {

// The row, or nullopt where there is none.
Result<std::optional<std::string>> find_row(View& rows, Table table, std::string_view key);
// The bucket as it is now. no_such_bucket when it was removed since it was looked up.
Result<BucketRecord> check_bucket(View& rows, const Bucket& bucket);
Result<std::optional<ObjectRecord>> find_object(View& rows, const Bucket& bucket, std::string_view key);
// precondition_failed; no_such_key for if_match without an object, or with one whose end has come.
Result<void> check_conditions(const Bucket& bucket, const std::optional<ObjectRecord>& current,
                              const CommitConditions& conditions);
// Releases the object's bytes.
Result<void> bury(Transaction& transaction, const std::optional<ObjectRecord>& object);
Result<std::vector<StoredPart>> object_parts(View& rows, const ObjectRecord& object);

// The time of a change that replaces `before`, the key's current object; null: nothing. The clock's, but later than all
// earlier times of the key.
Result<int64_t> time_after(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectInfo* before,
                           int64_t at_us);

// When a new object ends: its TTL after its time, or as the info has it, because it was told already.
enum class End : uint8_t { of_ttl, as_told };
// The head of a new current object, with id, time, end, version id and default retention set. invalid_request: a lock
// in a bucket without object lock. not_implemented: an end, which the engine does not keep.
Result<ObjectRecord> new_record(Transaction& transaction, const Bucket& of, const BucketRecord& bucket, ObjectInfo info,
                                int64_t at_us, End end = End::of_ttl);
// Makes these bytes the key's current object, and handles the previous one as the versioning asks. At the given time,
// or later (time_after()).
Result<ObjectRecord> replace_current(Transaction& transaction, const Bucket& of, const BucketRecord& bucket,
                                     std::string_view key, const std::optional<ObjectRecord>& current, ObjectInfo info,
                                     const BlobRef& blob, int64_t at_us, End end = End::of_ttl);

}  // namespace verbena::store
