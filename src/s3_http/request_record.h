// Records of HTTP requests in the logs of buckets.
#pragma once

#include <string_view>

#include "s3/copy_source.h"
#include "s3/workers/request_log.h"
#include "s3_http/context.h"

namespace verbena::s3 {

bool buckets_have_logs(const Context& context);

// The record of a request whose bucket has a log, as far as it is known before it is served. `selector`: of its
// operation.
Task<> begin_record(Context& context, std::string_view selector);

// A copy reads its source, whose bucket may have a log of its own: a record there, as of a GET. Behind the request's
// own record, if there is one.
Task<> begin_source_record(Context& context, const CopySource& source);
void add_source_size(Context& context, uint64_t size);

}  // namespace verbena::s3
