// Configurations stored as documents of a bucket.
#pragma once

#include <string_view>

#include "s3/context.h"

namespace verbena::s3 {

// Names of documents in the store; they are stored on disk.
inline constexpr std::string_view cors_document = "cors";
inline constexpr std::string_view tagging_document = "tagging";
inline constexpr std::string_view ownership_document = "ownership";
inline constexpr std::string_view public_access_document = "public-access";
inline constexpr std::string_view acl_document = "acl";
inline constexpr std::string_view policy_document = "policy";
inline constexpr std::string_view policy_binding_document = "policy-binding";  // the policy binds the owner's root too

// `missing` if the bucket has none; no_such_bucket.
Task<Result<store::Document>> read_bucket_document(Context& context, std::string_view name, Errc missing);

// Sets or removes one, and invalidates cached access records.
Task<Result<void>> keep_document(Service& service, const std::string& bucket, std::string_view name, std::string text);
Task<Result<void>> drop_document(Service& service, const std::string& bucket, std::string_view name);

}  // namespace verbena::s3
