#include "s3/objects/lock.h"

#include "base/date.h"

namespace verbena::s3 {

std::string_view lock_mode_name(store::LockMode mode) {
  return mode == store::LockMode::compliance ? "COMPLIANCE" : "GOVERNANCE";
}

void add_lock_headers(ReplyHeaders& out, const store::ObjectLock& lock) {
  if (lock.mode != store::LockMode::none) {
    out.emplace_back("x-amz-object-lock-mode", lock_mode_name(lock.mode));
    out.emplace_back("x-amz-object-lock-retain-until-date", format_iso8601(lock.retain_until_us));
  }
  if (lock.legal_hold) out.emplace_back("x-amz-object-lock-legal-hold", "ON");
}

void add_tag_and_lock_headers(ReplyHeaders& out, const store::ObjectInfo& info) {
  if (!info.tags.empty()) out.emplace_back("x-amz-tagging-count", std::to_string(info.tags.size()));
  add_lock_headers(out, info.lock);
}

}  // namespace verbena::s3
