// Whether what a rule's removal was judged by still holds, inside the judge of its commit.
#pragma once

#include <optional>
#include <string_view>

#include "store/logic/versions.h"
#include "store/removal_grounds.h"

namespace verbena::store {

// All of them: precondition_failed where something is another by now.
// The bucket, and its rules.
Result<void> check_rules(Transaction& transaction, const BucketRecord& bucket, const RemovalGrounds& grounds);
// These, and that the version is what it was: with these tags, and current, or noncurrent since then.
Result<void> check_grounds(Transaction& transaction, const BucketRecord& bucket, std::string_view key,
                           const std::optional<Version>& version, const RemovalGrounds& grounds);

}  // namespace verbena::store
