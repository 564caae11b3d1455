// A line of a server access log, in AWS's format ("Amazon S3 server access log format").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::s3 {

// Empty text and nullopt are written as "-".
struct LogRecord {
  std::string bucket_owner, bucket;
  int64_t time_s = 0;  // when the request came
  std::string peer, requester, request_id;
  std::string operation;  // REST.GET.OBJECT
  std::string key;        // as it is; written percent-encoded
  std::string request;    // "GET /bucket/key HTTP/1.1", without what a presigned URL proves itself with
  int status = 0;
  std::string error_code;
  uint64_t bytes_sent = 0;
  std::optional<uint64_t> object_size;
  std::optional<int64_t> total_ms;
  std::string referer, user_agent, version_id, host_id;
  std::string signature;  // SigV4, SigV2
  std::string auth_type;  // AuthHeader, QueryString
  std::string host;
  bool acl_required = false;  // without an access control list it would have been denied
};

// With its line end. One line of bounded length, whatever the texts hold: what is written of a text is cut, of the page
// and the program that sent the request earlier than of the request itself.
void append_log_record(std::string& out, const LogRecord& record);
std::string format_log_record(const LogRecord& record);

// REST.method.resource. `selector`: the query parameter that makes it another operation than the plain one.
std::string log_operation(std::string_view method, bool object, std::string_view selector);

// A request line without the values of signatures and session tokens.
std::string log_request_line(std::string_view method, std::string_view path, std::string_view query);
// A Referer, cleaned alike: the page may have been had by a presigned URL.
std::string log_referer(std::string_view referer);

}  // namespace verbena::s3
