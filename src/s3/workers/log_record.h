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
  int64_t time_s = 0;  // arrival of the request
  std::string peer, requester, request_id;
  std::string operation;  // REST.GET.OBJECT
  std::string key;        // decoded; written percent-encoded
  std::string request;    // "GET /bucket/key HTTP/1.1", without a presigned URL's signature
  int status = 0;
  std::string error_code;
  uint64_t bytes_sent = 0;
  std::optional<uint64_t> object_size;
  std::optional<int64_t> total_ms;
  std::string referer, user_agent, version_id, host_id;
  std::string signature;  // SigV4, SigV2
  std::string auth_type;  // AuthHeader, QueryString
  std::string host;
  bool acl_required = false;  // only an ACL allowed the request
};

// The line with its end, of bounded length: texts are truncated, Referer and User-Agent earlier than the request line.
void append_log_record(std::string& out, const LogRecord& record);
std::string format_log_record(const LogRecord& record);

// REST.method.resource. `selector`: the query parameter that selects another operation than the plain one.
std::string log_operation(std::string_view method, bool object, std::string_view selector);

// A request line without the values of signatures and session tokens.
std::string log_request_line(std::string_view method, std::string_view path, std::string_view query);
// A Referer, cleaned in the same way: it may be a presigned URL.
std::string log_referer(std::string_view referer);

}  // namespace verbena::s3
