// Checks, inside the commit's judge, that the grounds of a rule's removal still hold.
#pragma once

#include <optional>
#include <string_view>

#include "store/logic/versions.h"
#include "store/removal_grounds.h"

namespace verbena::store {

// Each fails with precondition_failed when something has changed.
// Checks the bucket and its rules.
Result<void> check_rules(Transaction& transaction, const BucketRecord& bucket, const RemovalGrounds& grounds);
// Checks those and that the version is unchanged: the same tags, and current, or noncurrent since the same time.
Result<void> check_grounds(Transaction& transaction, const BucketRecord& bucket, std::string_view key,
                           const std::optional<Version>& version, const RemovalGrounds& grounds);
// Checks the bucket and its bound.
Result<void> check_bound(Transaction& transaction, const BucketRecord& bucket, const RemovalGrounds& grounds);
// Checks that no lease pins the key.
Result<void> check_unpinned(const BucketRecord& bucket, std::string_view key);

}  // namespace verbena::store
