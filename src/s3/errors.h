// S3's error codes, statuses and messages, defined only here.
//
// The message a client sees is the table's, unless the error's context is a whole sentence (it ends with a full stop):
// such contexts are written for clients and replace it. All other contexts are for logs.
#pragma once

#include <string_view>

#include "base/result.h"
#include "call/request_times.h"

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

}  // namespace verbena::s3
