// Headers for object lock and tags.
#pragma once

#include "s3/reply_headers.h"
#include "store/store.h"

namespace verbena::s3 {

// "GOVERNANCE", "COMPLIANCE".
std::string_view lock_mode_name(store::LockMode mode);

// x-amz-object-lock-mode, -retain-until-date and -legal-hold of a GET or HEAD.
void add_lock_headers(ReplyHeaders& out, const store::ObjectLock& lock);
// The same, and x-amz-tagging-count.
void add_tag_and_lock_headers(ReplyHeaders& out, const store::ObjectInfo& info);

}  // namespace verbena::s3
