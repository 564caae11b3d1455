#include "s3_http/error_details.h"

#include <algorithm>

#include "auth/auth.h"
#include "base/date.h"
#include "s3_http/query.h"

namespace verbena::s3 {
namespace {

void add_detail(Headers& fields, std::string_view name, std::string_view value) {
  if (std::ranges::find(fields, name, &Headers::value_type::first) == fields.end()) fields.emplace_back(name, value);
}

void add_header_detail(Headers& fields, std::string_view name, const Request& request, std::string_view header) {
  if (const auto value = request.header(header)) add_detail(fields, name, *value);
}

struct SignatureClaim {
  std::string access_key, signature;
};

// The access key id in a request's header or query; empty if it has none.
SignatureClaim signature_claim(const Request& request) {
  const auto between = [](std::string_view text, std::string_view before, std::string_view ends) {
    const size_t at = text.find(before);
    if (at == std::string_view::npos) return std::string();
    text.remove_prefix(at + before.size());
    return std::string(text.substr(0, text.find_first_of(ends)));
  };
  if (const auto header = request.header("authorization")) {
    if (header->starts_with("AWS ")) {
      const size_t colon = std::min(header->find(':'), header->size());
      return {std::string(header->substr(4, colon - std::min<size_t>(colon, 4))),
              std::string(header->substr(std::min(colon + 1, header->size())))};
    }
    return {between(*header, "Credential=", "/, "), between(*header, "Signature=", ", ")};
  }
  const auto query = Query::parse(request.raw_query);
  if (!query) return {};
  const auto either = [&](std::string_view one, std::string_view other) {
    return std::string(query->get(one).value_or(query->get_or_empty(other)));
  };
  const std::string credential = either("X-Amz-Credential", "AWSAccessKeyId");
  return {credential.substr(0, credential.find('/')), either("X-Amz-Signature", "Signature")};
}

std::string headers_not_signed(const Request& request) {
  std::vector<auth::HeaderView> headers;
  headers.reserve(request.headers.size());
  for (const auto& [name, value] : request.headers) headers.push_back({name, value});
  return auth::Verifier::headers_not_signed({request.method, request.raw_path, request.raw_query, headers});
}

// For errors whose elements come from the request itself.
void add_request_details(Headers& fields, const Request& request, Errc code) {
  switch (code) {
    case Errc::invalid_digest:
      return add_header_detail(fields, "Content-MD5", request, "content-md5");
    case Errc::content_sha256_mismatch:
      return add_header_detail(fields, "ClientComputedContentSHA256", request, "x-amz-content-sha256");
    case Errc::invalid_storage_class:
      return add_header_detail(fields, "StorageClassRequested", request, "x-amz-storage-class");
    default:
      return;
  }
}

}  // namespace

void add_error_details(Context& context, Errc code) {
  auto& fields = context.error_fields;
  switch (code) {
    case Errc::no_such_bucket:
    case Errc::invalid_bucket_name:
    case Errc::bucket_already_exists:
    case Errc::bucket_already_owned_by_you:
    case Errc::bucket_not_empty:
    case Errc::no_such_bucket_policy:
    case Errc::no_such_cors:
    case Errc::no_such_encryption:
    case Errc::no_such_lifecycle:
    case Errc::no_such_object_lock_configuration:
    case Errc::no_such_ownership_controls:
    case Errc::no_such_public_access_block:
    case Errc::no_such_replication:
    case Errc::no_such_tag_set:
    case Errc::no_such_website:
      return add_detail(fields, "BucketName", context.bucket);
    case Errc::precondition_failed:
      if (fields.empty()) fields.emplace_back("Condition", context.header("if-match") ? "If-Match" : "If-None-Match");
      return;
    case Errc::no_such_key:
    case Errc::corrupt_object:
      return add_detail(fields, "Key", context.key);
    case Errc::no_such_version:
      add_detail(fields, "Key", context.key);
      return add_detail(fields, "VersionId", context.query.get_or_empty("versionId"));
    case Errc::no_such_upload:
    case Errc::invalid_part:
    case Errc::invalid_part_order:
      return add_detail(fields, "UploadId", context.query.get_or_empty("uploadId"));
    case Errc::key_too_long:
      add_detail(fields, "Size", std::to_string(context.key.size()));
      return add_detail(fields, "MaxSizeAllowed", std::to_string(store::key_size_max));
    case Errc::invalid_access_key_id:
      return add_detail(fields, "AWSAccessKeyId", context.caller().identity.access_key);
    default:
      return add_request_details(fields, context.request, code);
  }
}

Headers refusal_details(const Request& request, const Error& error, int64_t now_s) {
  constexpr int64_t skew_max_ms = 15 * 60 * 1000;  // auth::Verifier's
  Headers fields;
  if (error == Errc::invalid_access_key_id || error == Errc::signature_does_not_match) {
    const SignatureClaim claim = signature_claim(request);
    if (!claim.access_key.empty()) add_detail(fields, "AWSAccessKeyId", claim.access_key);
    if (error == Errc::signature_does_not_match) add_detail(fields, "SignatureProvided", claim.signature);
  } else if (error == Errc::request_time_too_skewed) {
    add_header_detail(fields, "RequestTime", request, request.header("x-amz-date") ? "x-amz-date" : "date");
    add_detail(fields, "ServerTime", format_iso8601(now_s * 1'000'000));
    add_detail(fields, "MaxAllowedSkewMilliseconds", std::to_string(skew_max_ms));
  } else if (error == Errc::missing_signed_header) {
    add_detail(fields, "HeadersNotSigned", headers_not_signed(request));
  } else {
    add_request_details(fields, request, error.code);
  }
  return fields;
}

}  // namespace verbena::s3
