// Versions of a key, inside a judge. The tables:
//  - `objects` has a key's current object, and only that: a listing of current objects reads nothing else.
//  - `versions` has all the rest, newest first: older objects, and delete markers. A key whose newest version is a
//    delete marker has nothing in `objects`.
//  - `uploads` has the id of a key's null version in `versions`, if it is there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/logic/object_ops.h"

namespace verbena::store {

inline constexpr std::string_view null_version_id = "null";

// 32 lower-case letters and digits: the record's id, so that the version can be found, then 96 random bits.
std::string make_version_id(uint64_t id);
// The record's id. nullopt: not made by make_version_id().
std::optional<uint64_t> parse_version_id(std::string_view version_id);

struct Version {
  ObjectRecord record;
  bool current = false;  // in `objects`
};

// nullopt: no such version. `version_id` is not empty: invalid_version for malformed ids.
Result<std::optional<Version>> find_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                            std::string_view version_id);
// The newest version, a delete marker too.
Result<std::optional<Version>> find_newest(Transaction& transaction, uint64_t bucket, std::string_view key);

// Writes the version into its table; for a new one step_aside() is called first.
void put_version(Transaction& transaction, uint64_t bucket, std::string_view key, const Version& version);

// Whether the key's null version is in `versions`: a new null version replaces it.
Result<bool> has_older_null_version(Transaction& transaction, uint64_t bucket, std::string_view key);

// Makes room for a new version of the key: moves or removes the `current` object and the null version as the bucket's
// versioning says. The caller then overwrites or erases the key in `objects`. Reports an old null version that is
// removed to listeners; the caller reports the current object's change.
Result<void> step_aside(Transaction& transaction, const Bucket& of, const BucketRecord& bucket, std::string_view key,
                        const std::optional<ObjectRecord>& current);

// The change of a key's current object.
struct CurrentObject {
  bool changed = false;
  std::optional<ObjectInfo> now{};  // if it changed: an older version; nullopt: there is none now
};
// Removes one version; if it was the newest, the next one takes its place. Does not check locks.
Result<CurrentObject> remove_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                     const Version& version);

// access_denied when the lock forbids to remove the version at that time.
Result<void> check_lock(const ObjectLock& lock, int64_t now_us, bool bypass_governance);

// The bucket's default retention, for a new version that has none.
void apply_default_retention(ObjectLock& lock, const BucketLock& bucket, int64_t now_us);

// Sets the version's name that users see: null versions have one once a bucket has had versioning.
void name_version(ObjectInfo& info, Versioning versioning);

// Whether a bucket of that id has any version in `versions`.
Result<bool> has_versions(Transaction& transaction, uint64_t bucket);

}  // namespace verbena::store
