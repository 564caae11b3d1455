// Object lock: a bucket's configuration, and retention and legal hold of versions.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-object-lock-mode, -retain-until-date and -legal-hold of a PUT, copy or new upload. invalid_argument.
Result<store::ObjectLock> read_lock_headers(const Context& context);

// x-amz-bypass-governance-retention: true.
bool bypasses_governance(const Context& context);

}  // namespace verbena::s3
