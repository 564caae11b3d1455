// Versions of a key, inside a judge. Where they are:
//  - `objects` has a key's current object, and only that: a listing of current objects meets nothing else.
//  - `versions` has all the rest, newest first: older objects, and delete markers. A key whose newest version is a
//    delete marker has nothing in `objects`.
//  - `uploads` says under which id a key's null version lies in `versions`, if it lies there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/logic/object_ops.h"

namespace verbena::store {

inline constexpr std::string_view null_version_id = "null";

// 32 lower-case letters and digits: the record's id, so that the version can be found, then 96 random bits.
std::string make_version_id(uint64_t id);
// The record's id. nullopt: nothing that make_version_id() made.
std::optional<uint64_t> parse_version_id(std::string_view version_id);

struct Version {
  ObjectRecord record;
  bool current = false;  // in `objects`
};

// nullopt: there is none. `version_id` is not empty: invalid_version for what cannot be one.
Result<std::optional<Version>> find_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                            std::string_view version_id);
// The newest version, a delete marker too.
Result<std::optional<Version>> find_newest(Transaction& transaction, uint64_t bucket, std::string_view key);

// Writes the version where it belongs; for a new one step_aside() came first.
void put_version(Transaction& transaction, uint64_t bucket, std::string_view key, const Version& version);

// Whether the key's null version is in `versions`: a new null version takes its place.
Result<bool> has_older_null_version(Transaction& transaction, uint64_t bucket, std::string_view key);

// Before a new version of the key: what the bucket's versioning says becomes of the `current` object and of the null
// version happens. The caller then overwrites or erases the key in `objects`. Who watches is told of an old null
// version that goes; of what was current the caller tells.
Result<void> step_aside(Transaction& transaction, const Bucket& of, const BucketRecord& bucket, std::string_view key,
                        const std::optional<ObjectRecord>& current);

// What became of a key's current object.
struct CurrentObject {
  bool changed = false;
  std::optional<ObjectInfo> now{};  // if it changed: an older version's; nullopt: there is none now
};
// One version goes; if it was the newest, the next one takes its place. Does not ask for locks.
Result<CurrentObject> remove_version(Transaction& transaction, uint64_t bucket, std::string_view key,
                                     const Version& version);

// access_denied when the lock forbids to remove the version at that time.
Result<void> check_lock(const ObjectLock& lock, int64_t now_us, bool bypass_governance);

// The bucket's default retention, for a new version that has none.
void apply_default_retention(ObjectLock& lock, const BucketLock& bucket, int64_t now_us);

// As users see it: null versions have a name once a bucket has had versioning.
void name_version(ObjectInfo& info, Versioning versioning);

// A bucket of that id has at least one version in `versions`.
Result<bool> has_versions(Transaction& transaction, uint64_t bucket);

}  // namespace verbena::store
