// Conversion of internal errors to public ones: Outcome<T> and ClientError of include/verbena/client.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "verbena/client.h"

namespace verbena::client {

inline std::unexpected<ClientError> fault(ErrorCode code, std::string message) {
  return std::unexpected<ClientError>(ClientError{code, std::move(message), {}, 0, {}});
}

// The public error for an internal one; `doing` begins the message ("native get").
ClientError from_error(const Error& error, std::string_view doing);
inline std::unexpected<ClientError> fault(const Error& error, std::string_view doing) {
  return std::unexpected<ClientError>(from_error(error, doing));
}

// The code for an S3 error reply. `s3_code` may be empty (HEAD has no body): the status then decides.
ErrorCode code_for(std::string_view s3_code, int http_status, bool has_key);
// S3's name for a failure reported by another door; empty if S3 has none.
std::string_view s3_code_for(ErrorCode code);

}  // namespace verbena::client

// As VB_TRY and VB_ASSIGN, for Outcome.
#define OUT_TRY_(tmp, ...) \
  if (auto tmp = (__VA_ARGS__); !tmp) return ::std::unexpected<::verbena::ClientError>(::std::move(tmp).error())
#define OUT_ASSIGN_(tmp, var, ...)                                                      \
  auto tmp = (__VA_ARGS__);                                                             \
  if (!tmp) return ::std::unexpected<::verbena::ClientError>(::std::move(tmp).error()); \
  var = ::std::move(*tmp)
#define OUT_TRY(...) OUT_TRY_(VB_CONCAT(out_try_, __COUNTER__), __VA_ARGS__)
#define OUT_ASSIGN(var, ...) OUT_ASSIGN_(VB_CONCAT(out_assign_, __COUNTER__), var, __VA_ARGS__)
