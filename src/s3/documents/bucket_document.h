// Configurations stored as documents of a bucket.
#pragma once

#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

// Names of documents in the store; they are stored on disk.
inline constexpr std::string_view cors_document = "cors";
inline constexpr std::string_view tagging_document = "tagging";
inline constexpr std::string_view ownership_document = "ownership";
inline constexpr std::string_view public_access_document = "public-access";
inline constexpr std::string_view acl_document = "acl";
inline constexpr std::string_view policy_document = "policy";
// Which policy binds the owner's root too: a policy_binding() of its text. "root", by earlier versions: whichever is
// there.
inline constexpr std::string_view policy_binding_document = "policy-binding";

inline constexpr std::string_view logging_document = "logging";
inline constexpr std::string_view encryption_document = "encryption";
// Of a bucket that is no directory bucket, whose objects may be appended to all the same.
inline constexpr std::string_view append_document = "append";
// Of a bucket whose entity tags are no MD5 of the bytes.
inline constexpr std::string_view etag_document = "etag";

// Names the policy by its text, and is unlike any other binding: also unlike one of the same text.
std::string policy_binding(std::string_view policy);
// Whether the policy binds the owner's root, by those two documents.
bool binds_root(const store::Document& policy, const store::Document& binding);

// Makes cached access records of the bucket stale after a change that the store answered with `outcome`. A refusal left
// everything as it was, and makes none stale: else refused requests of a caller without rights would make all others'
// requests for the bucket read its record again.
void note_change(Service& service, const std::string& bucket, const Result<void>& outcome);

// Sets or removes one. A change of what access records are made of makes the bucket's cached ones stale. To remove one
// that is not there makes none stale; it is committed all the same. The bucket's name outlives the call.
Task<Result<void>> keep_document(Service& service, store::NamedBucket bucket, std::string_view name, std::string text);
// keep_document() if the document is still `was` (null: none of that name), or drop_document() if `text` is empty;
// precondition_failed.
Task<Result<void>> replace_document(Service& service, store::NamedBucket bucket, std::string_view name,
                                    store::Document was, std::string text);
Task<Result<void>> drop_document(Service& service, store::NamedBucket bucket, std::string_view name);

}  // namespace verbena::s3
