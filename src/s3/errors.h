// S3's error codes, statuses and messages, defined only here.
//
// The message a client sees is the table's, unless the error's context is a whole sentence (it ends with a full stop):
// such contexts are written for clients and replace it. All other contexts are for logs.
#pragma once

#include <string_view>

#include "base/result.h"
#include "call/request_times.h"
#include "s3/request.h"

namespace verbena::s3 {

inline constexpr std::string_view host_id = "dmVyYmVuYQ==";  // x-amz-id-2, opaque at AWS

struct ErrorForm {
  std::string_view code;  // "NoSuchKey"
  int status = 500;       // HTTP
  std::string_view message;
};

// The status that HTTP gives this outcome. `partial`: a range was answered.
int status_of(call::Verb verb, Errc outcome, bool partial);

// The form of every Errc. Internal codes become InternalError.
ErrorForm error_form(Errc code);
std::string_view error_message(const Error& error);

// <Error> as AWS writes it. `fields` are the extra elements that some codes carry (BucketName, Key, ...).
std::string error_xml(const Error& error, std::string_view resource, std::string_view request_id,
                      const Headers& fields = {});

// Like fill_error(), with further elements. Clears the response first.
void fill_error_with(Response& response, const Error& error, std::string_view resource, std::string_view request_id,
                     const Headers& fields);

// x-amz-request-id and x-amz-id-2, which every response carries.
void add_request_ids(Response& response, std::string_view request_id);

}  // namespace verbena::s3
