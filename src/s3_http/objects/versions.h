// Versions as S3 shows them.
#pragma once

#include "s3/access/actions.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// ?versionId= of the request. invalid_argument when it is there and empty.
Result<std::string> read_version_id(const Context& context);

void add_version_id(Response& response, const std::string& version_id);
// For the reply to a write: x-amz-version-id where the write made a version.
void add_new_version_id(Response& response, const std::string& version_id);

// The version that is asked about (?versionId=, else the current object); a delete marker in its place is described.
// Authorized for `action`.
Task<Result<store::ObjectInfo>> stat_version(Context& context, const Action& action);

// Whether the caller may do this, too, to the version that was found.
Task<Result<void>> authorize_version(Context& context, const store::ObjectInfo& info, const Action& action);

// Whether that change of that version is allowed. Errors as stat_version().
Task<Result<store::ObjectInfo>> authorize_change(Context& context, const Action& action,
                                                 const store::ObjectChange& change);

// The same before it is known how it is to be changed: whether any change of this kind could be allowed. Asked before
// the document that says so is read.
Task<Result<void>> could_change(Context& context, const Action& action);

// Changes that version, authorized for `action`, and names it in the answer: the very version that was looked at, or
// the one that the change itself names. Errors as Store::update(); conditional_conflict while others write the key.
Task<Result<void>> update_version(Context& context, const Action& action, store::ObjectChange change);

// After a read failed with `error`: says with headers when it was a delete marker that was met.
Task<> describe_missing(Context& context, const Error& error, const std::string& version_id);

}  // namespace verbena::s3
