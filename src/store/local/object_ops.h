// Steps that the verbs share when they change the index. All run inside a transaction.
#pragma once

#include <optional>
#include <string>

#include "store/local/blob_writer.h"

namespace verbena::store::local {

// The bucket as it is now. no_such_bucket when it was removed since it was looked up.
Result<BucketRecord> check_bucket(Transaction& transaction, const Bucket& bucket);
Result<std::optional<ObjectRecord>> find_object(Transaction& transaction, const Bucket& bucket, std::string_view key);
// precondition_failed; no_such_key for if_match without an object.
Result<void> check_conditions(const std::optional<ObjectRecord>& current, const CommitConditions& conditions);
// What the object held goes.
Result<void> bury(Transaction& transaction, const std::optional<ObjectRecord>& object);
Result<std::vector<StoredPart>> object_parts(Transaction& transaction, const ObjectRecord& object);

// The head of a new current object: id, time, version id and default retention are set. invalid_request: a lock where
// the bucket has none.
Result<ObjectRecord> new_record(Engine& engine, const BucketRecord& bucket, ObjectInfo info, int64_t now_us);

// Brings an object into the index that was acknowledged already, at the time that its info says.
struct Acknowledged;
Result<void> apply_acknowledged(Transaction& transaction, Engine& engine, const Acknowledged& object,
                                const WrittenBlob& blob);

// The writer of an object.
std::unique_ptr<ObjectWriter> make_object_writer(std::shared_ptr<Engine> engine, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint);
VolumeKind volume_kind(const Bucket& bucket);

}  // namespace verbena::store::local
