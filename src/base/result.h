// Result and Error: the one way that functions in Verbena fail.
//
// Result<T> is std::expected<T, Error>. Error is three words and never allocates, so it may be made on any path.
// Exceptions are for start-up and bindings only. Error codes are shared by every room and every door; their S3
// names and HTTP statuses live in s3/errors.cc alone, and the native protocol sends their numbers
// (docs/native-protocol.md), so enumerators keep their values once released.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace verbena {

enum class Errc : uint16_t {
  ok = 0,

  // The request cannot be fulfilled: client-side outcomes.
  no_such_bucket = 1,
  no_such_key = 2,
  no_such_upload = 3,
  no_such_version = 4,
  bucket_already_exists = 5,
  bucket_already_owned_by_you = 6,
  bucket_not_empty = 7,
  invalid_bucket_name = 8,
  precondition_failed = 9,
  not_modified = 10,
  invalid_range = 11,
  invalid_argument = 12,
  invalid_request = 13,
  malformed_xml = 14,
  invalid_part = 15,
  invalid_part_order = 16,
  entity_too_small = 17,
  entity_too_large = 18,
  key_too_long = 19,
  metadata_too_large = 20,
  bad_digest = 21,
  invalid_digest = 22,
  content_sha256_mismatch = 23,
  incomplete_body = 24,
  missing_content_length = 25,
  method_not_allowed = 26,
  not_implemented = 27,
  conditional_conflict = 28,
  invalid_uri = 29,
  malformed_trailer = 30,
  missing_security_header = 31,
  invalid_copy_source = 32,
  invalid_location_constraint = 33,
  invalid_checksum = 34,
  request_header_too_large = 35,
  invalid_encryption = 36,
  invalid_part_number = 37,
  invalid_storage_class = 38,
  malformed_post = 39,
  invalid_policy_document = 40,
  post_fields_too_large = 41,
  no_such_cors = 42,
  no_such_tag_set = 43,
  no_such_bucket_policy = 44,
  no_such_website = 45,
  no_such_replication = 46,
  no_such_encryption = 47,
  invalid_tag = 53,
  no_such_ownership_controls = 55,
  no_such_public_access_block = 56,
  cors_forbidden = 57,
  bad_request = 58,
  malformed_acl = 59,

  // Policies and access control lists.
  malformed_policy = 60,
  acl_not_supported = 61,
  unresolvable_email = 62,
  invalid_grantee = 63,
  invalid_bucket_acl = 73,

  // Versions, locks, lifecycles.
  invalid_bucket_state = 48,
  invalid_version = 49,
  no_such_object_lock = 50,
  no_such_object_lock_configuration = 51,
  no_such_lifecycle = 52,
  invalid_retention_period = 54,

  // Authentication and authorization.
  access_denied = 64,
  invalid_access_key_id = 65,
  signature_does_not_match = 66,
  request_time_too_skewed = 67,
  expired_token = 68,
  authorization_header_malformed = 69,
  authorization_query_error = 70,
  invalid_token = 71,
  missing_signed_header = 72,

  // Encryption.
  key_unavailable = 80,          // no such key in the key ring
  encryption_key_required = 81,  // the object has a customer's key and the request none, or vice versa
  encryption_key_wrong = 82,
  encryption_key_digest = 83,  // the key's MD5 does not match the one sent with it
  insecure_customer_key = 84,  // a customer's key without TLS, if that is forbidden
  no_such_kms_key = 85,
  invalid_kms_key_id = 86,

  invalid_target_bucket = 90,  // for logs

  // Directory buckets.
  invalid_write_offset = 91,
  too_many_parts = 92,
  idempotency_mismatch = 93,  // a client token that was used with another request
  encryption_type_mismatch = 94,

  quota_exceeded = 95,
  too_many_buckets = 99,

  // RDMA: S3 with a token (docs/s3.md).
  invalid_rdma_token = 96,
  rdma_not_supported = 97,
  rdma_transfer_failed = 98,

  // The server's own state.
  internal = 128,
  slow_down = 129,
  service_unavailable = 130,
  insufficient_storage = 131,
  corrupt_object = 132,
  request_timeout = 133,
  io_error = 134,

  // Internal: a caller maps these before they reach a client.
  would_block = 160,
  cancelled = 161,
  timed_out = 162,
  closed = 163,
  not_found = 164,
  unsupported = 165,
  malformed = 166,
  too_large = 167,
  out_of_memory = 168,
  connection_failed = 169,
  bad_config = 170,

  // IAM, STS and the admin API.
  no_such_entity = 224,
  entity_already_exists = 225,
  delete_conflict = 226,
  limit_exceeded = 227,
  malformed_policy_document = 228,
  validation_error = 229,
  invalid_action = 230,
  invalid_client_token_id = 231,
  missing_authentication = 232,
  packed_policy_too_large = 233,
};

// The reason of a failure. `context` must point to a string with static storage duration.
struct [[nodiscard]] Error {
  Errc code = Errc::internal;
  int sys = 0;  // errno, or a provider's own (positive) code; 0: none
  const char* context = "";

  friend bool operator==(const Error& a, Errc code) { return a.code == code; }
};

template <class T = void>
using Result = std::expected<T, Error>;

// fail(Errc::io_error, "volume: pread", errno)
[[nodiscard]] inline std::unexpected<Error> fail(Errc code, const char* context = "", int sys = 0) {
  return std::unexpected<Error>(Error{code, sys, context});
}

// The enumerator's name, as written above ("no_such_key").
std::string_view to_string(Errc code);

// "no_such_key: index: get (errno 2: No such file or directory)". For logs and tests; never holds secrets.
std::string describe(const Error& error);

}  // namespace verbena

// VB_TRY(expr): return the error of `expr` to the caller, if there is one. VB_CO_TRY does so in a coroutine.
// VB_ASSIGN(var, expr): declare `var` with the value of `expr`, or return its error.
#define VB_CONCAT_(a, b) a##b
#define VB_CONCAT(a, b) VB_CONCAT_(a, b)
#define VB_TRY_(tmp, ret, ...) \
  if (auto tmp = (__VA_ARGS__); !tmp) ret ::std::unexpected<::verbena::Error>(tmp.error())
#define VB_ASSIGN_(tmp, ret, var, ...)                            \
  auto tmp = (__VA_ARGS__);                                       \
  if (!tmp) ret ::std::unexpected<::verbena::Error>(tmp.error()); \
  var = ::std::move(*tmp)
#define VB_TRY(...) VB_TRY_(VB_CONCAT(vb_try_, __COUNTER__), return, __VA_ARGS__)
#define VB_CO_TRY(...) VB_TRY_(VB_CONCAT(vb_try_, __COUNTER__), co_return, __VA_ARGS__)
#define VB_ASSIGN(var, ...) VB_ASSIGN_(VB_CONCAT(vb_assign_, __COUNTER__), return, var, __VA_ARGS__)
#define VB_CO_ASSIGN(var, ...) VB_ASSIGN_(VB_CONCAT(vb_assign_, __COUNTER__), co_return, var, __VA_ARGS__)
