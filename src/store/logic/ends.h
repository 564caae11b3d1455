// The index of ends: a row for each current object with an end, written in the same change as its head.
#pragma once

#include <vector>

#include "store/ends.h"
#include "store/logic/object_ops.h"
#include "store/logic/versions.h"

namespace verbena::store {

// Moves the key's row from the end of the current object before a change to that after it. Null: there is no object.
void move_end(Transaction& transaction, uint64_t bucket, std::string_view key, const ObjectInfo* before,
              const ObjectInfo* after);
inline const ObjectInfo* info_of(const std::optional<ObjectRecord>& object) { return object ? &object->info : nullptr; }

// Whether the end of the current object has come for one that asks by the id of its version. Of versions the current
// one ends as one, and keeps its name.
inline bool is_gone_by_name(const Bucket& bucket, const ObjectInfo& info, Versioning now) {
  return now == Versioning::off && bucket.is_gone(info);
}

// Renews the end as store/ends.h says of `touch`. False: it is not due. invalid_request: there is none to renew, or the
// version is not current.
Result<bool> renew_end(const Bucket& bucket, Version& version, std::string_view touch, int64_t now_us);

// Without the buckets' names.
Result<std::vector<EndedKey>> read_ended(View& rows, int64_t now_us, size_t max, const std::string& after);
std::string end_row(const EndedKey& ended);
Change forget_end_change(std::shared_ptr<const Bucket> bucket, EndedKey ended);

}  // namespace verbena::store
