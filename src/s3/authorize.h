// Who may do what. Until there are users and policies: the root account may do everything, anonymous callers nothing.
#pragma once

#include <string_view>

#include "base/result.h"
#include "s3/request.h"

namespace verbena::s3 {

// The owner of every bucket, as BucketInfo::owner and <Owner> name it.
inline constexpr std::string_view root_account = "root";

inline Result<void> authorize(const Caller& caller) {
  if (caller.identity.anonymous) return fail(Errc::access_denied, "anonymous");
  return {};
}

}  // namespace verbena::s3
