// Configurations that are kept as documents of a bucket.
#pragma once

#include <string_view>

#include "s3/context.h"

namespace verbena::s3 {

// Names of documents in the store; they are on disk.
inline constexpr std::string_view cors_document = "cors";
inline constexpr std::string_view tagging_document = "tagging";
inline constexpr std::string_view ownership_document = "ownership";
inline constexpr std::string_view public_access_document = "public-access";

// `missing` when the bucket has none; no_such_bucket.
Task<Result<store::Document>> read_bucket_document(Context& context, std::string_view name, Errc missing);

}  // namespace verbena::s3
