#include "client/outcome.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbena {

std::string_view to_string(DeviceVerified verified) {
  switch (verified) {
    case DeviceVerified::none:
      return {};
    case DeviceVerified::kernel:
      return "kernel";
    case DeviceVerified::read_back:
      return "read_back";
    case DeviceVerified::no_checksum:
      return "no_checksum";
  }
  return {};
}

std::string_view to_string(DevicePath path) {
  switch (path) {
    case DevicePath::none:
      return "";
    case DevicePath::staged:
      return "staged";
    case DevicePath::shared:
      return "shared";
    case DevicePath::direct:
      return "direct";
    case DevicePath::peer:
      return "peer";
  }
  return "";
}

std::string_view to_string(Via via) {
  switch (via) {
    case Via::automatic:
      return "auto";
    case Via::native:
      return "native";
    case Via::token:
      return "token";
    case Via::http:
      return "http";
  }
  return "?";
}

std::optional<Via> parse_via(std::string_view text) {
  for (Via via : {Via::automatic, Via::native, Via::token, Via::http}) {
    if (text == to_string(via)) return via;
  }
  return std::nullopt;
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::no_such_bucket:
      return "no_such_bucket";
    case ErrorCode::no_such_key:
      return "no_such_key";
    case ErrorCode::no_such_upload:
      return "no_such_upload";
    case ErrorCode::bucket_exists:
      return "bucket_exists";
    case ErrorCode::bucket_not_empty:
      return "bucket_not_empty";
    case ErrorCode::precondition_failed:
      return "precondition_failed";
    case ErrorCode::not_modified:
      return "not_modified";
    case ErrorCode::invalid_range:
      return "invalid_range";
    case ErrorCode::access_denied:
      return "access_denied";
    case ErrorCode::unknown_access_key:
      return "unknown_access_key";
    case ErrorCode::checksum_mismatch:
      return "checksum_mismatch";
    case ErrorCode::buffer_too_small:
      return "buffer_too_small";
    case ErrorCode::too_large:
      return "too_large";
    case ErrorCode::slow_down:
      return "slow_down";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::connection_failed:
      return "connection_failed";
    case ErrorCode::timed_out:
      return "timed_out";
    case ErrorCode::outcome_unknown:
      return "outcome_unknown";
    case ErrorCode::malformed_reply:
      return "malformed_reply";
    case ErrorCode::server_error:
      return "server_error";
    case ErrorCode::local_error:
      return "local_error";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::forked:
      return "forked";
    case ErrorCode::insufficient_storage:
      return "insufficient_storage";
  }
  return "?";
}

}  // namespace verbena

namespace verbena::client {
namespace {

ErrorCode code_of(Errc code) {
  switch (code) {
    case Errc::no_such_bucket:
      return ErrorCode::no_such_bucket;
    case Errc::no_such_key:
    case Errc::no_such_version:
    case Errc::not_found:
      return ErrorCode::no_such_key;
    case Errc::no_such_upload:
      return ErrorCode::no_such_upload;
    case Errc::bucket_already_exists:
    case Errc::bucket_already_owned_by_you:
      return ErrorCode::bucket_exists;
    case Errc::bucket_not_empty:
      return ErrorCode::bucket_not_empty;
    case Errc::precondition_failed:
    case Errc::conditional_conflict:
    case Errc::invalid_write_offset:
    case Errc::encryption_type_mismatch:
      return ErrorCode::precondition_failed;
    case Errc::too_many_parts:
      return ErrorCode::too_large;
    case Errc::idempotency_mismatch:
      return ErrorCode::invalid_argument;
    case Errc::not_modified:
      return ErrorCode::not_modified;
    case Errc::invalid_range:
    case Errc::invalid_part_number:
      return ErrorCode::invalid_range;
    case Errc::access_denied:
    case Errc::quota_exceeded:
    case Errc::signature_does_not_match:
    case Errc::request_time_too_skewed:
    case Errc::expired_token:
    case Errc::invalid_token:
    case Errc::missing_signed_header:
      return ErrorCode::access_denied;
    case Errc::invalid_access_key_id:
      return ErrorCode::unknown_access_key;
    case Errc::bad_digest:
    case Errc::content_sha256_mismatch:
    case Errc::invalid_checksum:
      return ErrorCode::checksum_mismatch;
    case Errc::too_large:
      return ErrorCode::buffer_too_small;
    case Errc::entity_too_large:
    case Errc::metadata_too_large:
    case Errc::key_too_long:
      return ErrorCode::too_large;
    case Errc::invalid_argument:
    case Errc::encryption_key_required:
    case Errc::encryption_key_wrong:
    case Errc::encryption_key_digest:
    case Errc::insecure_customer_key:
    case Errc::no_such_kms_key:
    case Errc::invalid_kms_key_id:
    case Errc::invalid_bucket_name:
    case Errc::invalid_request:
    case Errc::invalid_uri:
    case Errc::invalid_digest:
    case Errc::bad_config:
      return ErrorCode::invalid_argument;
    case Errc::slow_down:
    case Errc::service_unavailable:
      return ErrorCode::slow_down;
    case Errc::insufficient_storage:
      return ErrorCode::insufficient_storage;
    case Errc::unsupported:
    case Errc::not_implemented:
    case Errc::rdma_not_supported:
    case Errc::method_not_allowed:
      return ErrorCode::unsupported;
    case Errc::connection_failed:
      return ErrorCode::connection_failed;
    case Errc::timed_out:
    case Errc::request_timeout:
      return ErrorCode::timed_out;
    case Errc::closed:
    case Errc::cancelled:
      return ErrorCode::outcome_unknown;
    case Errc::malformed:
      return ErrorCode::malformed_reply;
    case Errc::out_of_memory:
      return ErrorCode::local_error;
    // As HTTP reports them: the status says which side is at fault.
    case Errc::key_unavailable:
    case Errc::rdma_transfer_failed:
      return ErrorCode::server_error;
    case Errc::cors_forbidden:
      return ErrorCode::access_denied;
    default:
      return code < Errc::internal ? ErrorCode::invalid_argument : ErrorCode::server_error;
  }
}

struct Known {
  std::string_view s3_code;
  ErrorCode code;
};
constexpr std::array known_codes = {
    Known{"NoSuchBucket", ErrorCode::no_such_bucket},
    Known{"NoSuchKey", ErrorCode::no_such_key},
    Known{"NoSuchVersion", ErrorCode::no_such_key},
    Known{"NoSuchUpload", ErrorCode::no_such_upload},
    Known{"BucketAlreadyExists", ErrorCode::bucket_exists},
    Known{"BucketAlreadyOwnedByYou", ErrorCode::bucket_exists},
    Known{"BucketNotEmpty", ErrorCode::bucket_not_empty},
    Known{"PreconditionFailed", ErrorCode::precondition_failed},
    Known{"ConditionalRequestConflict", ErrorCode::precondition_failed},
    Known{"InvalidWriteOffset", ErrorCode::precondition_failed},
    Known{"EncryptionTypeMismatch", ErrorCode::precondition_failed},
    Known{"InvalidRange", ErrorCode::invalid_range},
    Known{"AccessDenied", ErrorCode::access_denied},
    Known{"QuotaExceeded", ErrorCode::access_denied},
    Known{"SignatureDoesNotMatch", ErrorCode::access_denied},
    Known{"RequestTimeTooSkewed", ErrorCode::access_denied},
    Known{"ExpiredToken", ErrorCode::access_denied},
    Known{"InvalidToken", ErrorCode::access_denied},
    Known{"InvalidAccessKeyId", ErrorCode::unknown_access_key},
    Known{"BadDigest", ErrorCode::checksum_mismatch},
    Known{"XAmzContentSHA256Mismatch", ErrorCode::checksum_mismatch},
    Known{"EntityTooLarge", ErrorCode::too_large},
    Known{"TooManyParts", ErrorCode::too_large},
    Known{"KeyTooLongError", ErrorCode::too_large},
    Known{"MetadataTooLarge", ErrorCode::too_large},
    Known{"SlowDown", ErrorCode::slow_down},
    Known{"ServiceUnavailable", ErrorCode::slow_down},
    Known{"RequestTimeout", ErrorCode::slow_down},
    Known{"NotImplemented", ErrorCode::unsupported},
    Known{"RDMANotSupported", ErrorCode::unsupported},
    Known{"MethodNotAllowed", ErrorCode::unsupported},
    Known{"InsufficientStorage", ErrorCode::insufficient_storage},
    Known{"InternalError", ErrorCode::server_error},
    Known{"RDMATransferFailed", ErrorCode::server_error},
};

}  // namespace

ErrorCode code_for(std::string_view s3_code, int http_status, bool has_key) {
  const auto known = std::ranges::find(known_codes, s3_code, &Known::s3_code);
  if (known != known_codes.end()) return known->code;
  switch (http_status) {
    case 304:
      return ErrorCode::not_modified;
    case 401:
    case 403:
      return ErrorCode::access_denied;
    case 404:
      return has_key ? ErrorCode::no_such_key : ErrorCode::no_such_bucket;
    case 405:
    case 501:
      return ErrorCode::unsupported;
    case 412:
      return ErrorCode::precondition_failed;
    case 413:
      return ErrorCode::too_large;
    case 416:
      return ErrorCode::invalid_range;
    case 429:
    case 503:
      return ErrorCode::slow_down;
    case 507:
      return ErrorCode::insufficient_storage;
    default:
      return http_status >= 400 && http_status < 500 ? ErrorCode::invalid_argument : ErrorCode::server_error;
  }
}

std::string_view s3_code_for(ErrorCode code) {
  const auto known = std::ranges::find(known_codes, code, &Known::code);
  return known == known_codes.end() ? std::string_view() : known->s3_code;
}

ClientError from_error(const Error& error, std::string_view doing) {
  ClientError out;
  out.code = code_of(error.code);
  std::string words(to_string(error.code));
  std::ranges::replace(words, '_', ' ');
  out.message = std::string(doing) + ": " + words;
  if (error.context != nullptr && *error.context != '\0') out.message += std::string(" (") + error.context + ")";
  if (error.sys > 0 && error.sys < 4096) out.message += std::string(": ") + std::strerror(error.sys);
  return out;
}

}  // namespace verbena::client
