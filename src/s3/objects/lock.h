// Object lock: a bucket's configuration, and retention and legal hold of versions.
#pragma once

#include "s3/context.h"

namespace verbena::s3 {

// x-amz-object-lock-mode, -retain-until-date and -legal-hold of a PUT, copy or new upload. invalid_argument.
Result<store::ObjectLock> read_lock_headers(const Context& context);

// The same headers of a GET or HEAD.
void add_lock_headers(ReplyHeaders& out, const store::ObjectLock& lock);

// x-amz-bypass-governance-retention: true.
bool bypasses_governance(const Context& context);

}  // namespace verbena::s3
