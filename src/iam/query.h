// The query APIs without their transport. Internal to iam/; tests and fuzzers call it, too.
#pragma once

#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "base/clock.h"
#include "s3/request.h"

namespace verbena::iam {

// Serves one form. Blocks. Fills `response` whatever comes of it.
void answer_query(auth::IdentityStore& store, const WallClock& clock, const s3::Caller& caller,
                  const auth::AccessKey& key, std::string_view form, s3::Response& response);

// <ErrorResponse>; an empty message: the code's own.
void write_error(const Error& error, std::string_view message, std::string_view request_id, bool sts,
                 s3::Response& response);

}  // namespace verbena::iam
