// Headers that are kept with an object.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "s3/types.h"
#include "store/store.h"

namespace verbena::s3 {

inline constexpr std::string_view user_metadata_prefix = "x-amz-meta-";
inline constexpr std::string_view storage_class_header = "x-amz-storage-class";
inline constexpr std::string_view redirect_header = "x-amz-website-redirect-location";
inline constexpr std::string_view express_class = "EXPRESS_ONEZONE";

// content-type and its siblings, which an object gives back as they came.
bool is_system_header(std::string_view name);
// Whether a header may have this value. A line end in it would let its author write headers of its own into a later
// answer.
bool is_field_value(std::string_view text);
// A class that objects outside of directory buckets may have.
bool is_storage_class(std::string_view name);

// For headers from any door: known names, no control characters in values, user metadata up to 2 KiB (names without
// their prefix, plus values), system headers up to 8 KiB, a redirect as S3 has it. not_implemented: a TTL that `store`
// does not keep (null: not checked).
Result<void> check_object_headers(const Headers& headers, const store::Store* store = nullptr);

// Of an object or upload with these headers; "STANDARD" is not kept among them.
std::string storage_class(const Headers& headers);
void set_storage_class(Headers& headers, std::string_view name);
// Replaces the redirect among the headers by `location`; empty: removes it. invalid_argument.
Result<void> set_redirect(Headers& headers, std::optional<std::string_view> location);
// The storage class of a new object, for every door: EXPRESS_ONEZONE in directory buckets and nowhere else
// (invalid_storage_class), and STANDARD is stored as no class. name_storage_class() is for headers that are stored:
// policies judge those of the request.
Result<void> check_storage_class(const Headers& headers, std::string_view bucket);
// Whether objects of that bucket may have these headers: their storage class, and a redirect, which objects of
// directory buckets do not have (not_implemented). Over HTTP the table of headers refuses it earlier
// (s3_http/header_table.h).
Result<void> check_headers_for(const Headers& headers, std::string_view bucket);
void name_storage_class(Headers& headers, std::string_view bucket);
Result<void> settle_storage_class(Headers& headers, std::string_view bucket);  // both

}  // namespace verbena::s3
