// Configurations stored as documents of a bucket.
#pragma once

#include <string_view>

#include "s3_http/context.h"

namespace verbena::s3 {

// `missing` if the bucket has none; no_such_bucket.
Task<Result<store::Document>> read_bucket_document(Context& context, std::string_view name, Errc missing);

}  // namespace verbena::s3
