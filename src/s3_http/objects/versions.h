// Version ids in requests and answers.
#pragma once

#include "s3/access/actions.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// ?versionId= of the request. invalid_argument if it is empty.
Result<std::string> read_version_id(const Context& context);

void add_version_id(Response& response, const std::string& version_id);
// For the reply to a write: x-amz-version-id, if the write made a version.
void add_new_version_id(Response& response, const std::string& version_id);

// The requested version (?versionId=, else the current object), authorized for `action`. For a delete marker in its
// place the error is described.
Task<Result<store::ObjectInfo>> stat_version(Context& context, const Action& action);

// Authorizes a further action on the found version.
Task<Result<void>> authorize_version(Context& context, const store::ObjectInfo& info, const Action& action);

// Authorizes a change of the version. Errors as stat_version().
Task<Result<store::ObjectInfo>> authorize_change(Context& context, const Action& action,
                                                 const store::ObjectChange& change);

// The same before the document with the change is read: whether any change of this kind could be allowed.
Task<Result<void>> could_change(Context& context, const Action& action);

// Changes the version, authorized for `action`, and names it in the answer: exactly the version that was authorized, or
// the one that the change itself names. Errors as Store::update(); conditional_conflict if the key is written at the
// same time.
Task<Result<void>> update_version(Context& context, const Action& action, store::ObjectChange change);

// After a read failed with `error`: adds the headers for a delete marker, if that was the cause.
Task<> describe_missing(Context& context, const Error& error, const std::string& version_id);

}  // namespace verbena::s3
