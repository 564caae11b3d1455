#include "s3/objects/expiration.h"

#include <fmt/core.h>

#include "auth/auth.h"
#include "base/date.h"
#include "s3/documents/lifecycle_rules.h"

namespace verbena::s3 {

void add_expiration_header(ReplyHeaders& out, const BucketAccess& access, std::string_view key,
                           const store::ObjectInfo& info) {
  if (access.lifecycle == nullptr) return;
  // The header is for clients that plan by the calendar: it has days of 24 hours even if lifecycle_day is shorter.
  constexpr int64_t day_s = 86'400;
  const auto expiry = find_expiry(*access.lifecycle, key, info, day_s);
  if (!expiry) return;
  out.emplace_back("x-amz-expiration",
                   fmt::format("expiry-date=\"{}\", rule-id=\"{}\"", format_http_date(expiry->at_us / 1'000'000),
                               auth::uri_encode(expiry->rule->id, true)));
}

}  // namespace verbena::s3
