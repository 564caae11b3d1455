#include "s3_http/headers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/date.h"
#include "base/text.h"
#include "base/utf8.h"
#include "s3/names.h"
#include "s3/objects/object_headers.h"
#include "store/ends.h"

namespace verbena::s3 {
namespace {

// Classes that would need a restore before reading, or that are not stored here.
constexpr std::array<std::string_view, 6> archive_classes = {"GLACIER", "DEEP_ARCHIVE",    "OUTPOSTS",
                                                             "SNOW",    "EXPRESS_ONEZONE", "FSX_OPENZFS"};
constexpr std::array<std::string_view, 8> canned_lists = {
    "private",       "public-read",       "public-read-write",         "authenticated-read",
    "aws-exec-read", "bucket-owner-read", "bucket-owner-full-control", "log-delivery-write"};

bool is_among(const auto& list, std::string_view value) { return std::ranges::find(list, value) != list.end(); }

std::unexpected<Error> not_here(Context& context, std::string_view name) {
  context.error_fields.emplace_back("Header", name);
  return fail(Errc::not_implemented, "A header you provided implies functionality that is not implemented.");
}

// Values that no server knows are invalid, not unimplemented.
Result<void> check_value(Context& context, RequestKind kind, std::string_view name, std::string_view value) {
  if (name == "x-amz-acl" && !is_among(canned_lists, value)) return fail(Errc::invalid_argument, "x-amz-acl");
  if (name == storage_class_header) {
    if (value == express_class && is_directory_bucket(context.bucket)) return {};
    if (is_among(archive_classes, value)) return not_here(context, name);
    if (!is_storage_class(value)) return fail(Errc::invalid_storage_class, "x-amz-storage-class");
  }
  if (name == "x-amz-bucket-namespace" && value != "global") {
    if (value == "account-regional") return not_here(context, name);
    return fail(Errc::invalid_argument, "x-amz-bucket-namespace must be global or account-regional.");
  }
  const bool one_body = kind == RequestKind::put_object || kind == RequestKind::upload_part;
  if (name == "x-amz-checksum-type" && value != "FULL_OBJECT" && (one_body || value != "COMPOSITE")) {
    return fail(Errc::invalid_request, "Value for x-amz-checksum-type header is invalid.");
  }
  return {};
}

// Codings are case-insensitive (RFC 9110 section 8.4.1); the remaining ones are stored as sent.
std::string without_aws_chunked(std::string_view encodings) {
  constexpr std::string_view chunked = "aws-chunked";
  if (lower(encodings).find(chunked) == std::string::npos) return std::string(encodings);
  std::string kept;
  while (!encodings.empty()) {
    const size_t cut = std::min(encodings.find(','), encodings.size());
    const std::string_view one = trim(encodings.substr(0, cut));
    encodings.remove_prefix(std::min(cut + 1, encodings.size()));
    if (one.empty() || lower(one) == chunked) continue;
    if (!kept.empty()) kept += ',';
    kept += one;
  }
  return kept;
}

// User metadata beyond ASCII is sent in RFC 2047 encoding (AWS, "Working with object metadata"). Bytes that are not
// UTF-8 are treated as Latin-1.
std::string mail_safe(const std::string& value) {
  if (std::ranges::all_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return value;
  std::string utf8;
  if (valid_utf8(value)) {
    utf8 = value;
  } else {
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80) utf8 += static_cast<char>(0xc0 | byte >> 6);
      utf8 += static_cast<char>(byte < 0x80 ? byte : 0x80 | (byte & 0x3f));
    }
  }
  return fmt::format("=?UTF-8?B?{}?=", to_base64(as_bytes(utf8)));
}

// One value per name: HTTP lets a repeated header be written as one with commas (RFC 9110 section 5.3).
void add(Headers& headers, std::string_view name, std::string_view value) {
  const auto same = [&](const auto& header) { return header.first == name; };
  if (auto it = std::ranges::find_if(headers, same); it != headers.end()) {
    it->second.append(",").append(value);
  } else {
    headers.emplace_back(name, value);
  }
}

}  // namespace

Result<Headers> read_object_headers(const Context& context) {
  Headers headers;
  const auto take = [&](HeaderSpan from) {
    for (const auto& [name, value] : from) {
      if (name == "content-encoding") {
        if (auto kept = without_aws_chunked(value); !kept.empty()) add(headers, name, kept);
      } else if (is_system_header(name) || name.starts_with(user_metadata_prefix)) {
        add(headers, name, value);
      } else if (name == storage_class_header) {
        headers.emplace_back(name, value);
      } else if (name == redirect_header || name == store::ttl_header) {
        headers.emplace_back(name, value);
      }
    }
  };
  take(context.request.headers);
  take(context.hoisted);
  VB_TRY(check_object_headers(headers, &context.service.store));
  return headers;
}

Result<void> check_request_headers(Context& context, RequestKind kind) {
  const bool directory = is_directory_bucket(context.bucket);
  for (const HeaderSpan headers : {context.request.headers, HeaderSpan(context.hoisted)}) {
    for (const auto& [name, value] : headers) {
      if (!is_in_table(name)) continue;
      if (!may_have_header(kind, directory, name, value)) {
        if (is_unknown_checksum(name)) {
          return fail(Errc::invalid_request, "The algorithm type you specified in x-amz-checksum- header is invalid.");
        }
        return not_here(context, name);
      }
      VB_TRY(check_value(context, kind, name, value));
    }
  }
  return {};
}

void add_object_headers(Response& response, const store::ObjectInfo& info) {
  auto& headers = response.headers;
  headers.emplace_joined("etag", "\"", info.etag, "\"");
  headers.emplace_back("last-modified", format_http_date(info.modified_us / 1'000'000));
  headers.emplace_back("accept-ranges", "bytes");
  bool typed = false;
  for (const auto& header : info.headers) {
    typed |= header.first == "content-type";
    if (header.first.starts_with(user_metadata_prefix)) {
      headers.emplace_back(header.first, mail_safe(header.second));
    } else {
      headers.emplace_back(header.first, header.second);
    }
  }
  if (!typed) headers.emplace_back("content-type", "binary/octet-stream");  // S3's default
}

Result<void> apply_response_overrides(Context& context) {
  constexpr std::string_view prefix = "response-";
  constexpr std::array<std::string_view, 6> overrides = {"response-cache-control",    "response-content-disposition",
                                                         "response-content-encoding", "response-content-language",
                                                         "response-content-type",     "response-expires"};
  for (const auto& [name, value] : context.query.items()) {
    if (std::ranges::find(overrides, name) == overrides.end()) continue;
    if (context.caller().identity.anonymous) {
      return fail(Errc::invalid_request,
                  "Request specific response headers cannot be used for anonymous GET requests.");
    }
    if (!is_field_value(value)) return fail(Errc::invalid_argument, "A response header value is not valid.");
    const std::string_view header = std::string_view(name).substr(prefix.size());
    context.response.headers.erase(header);
    context.reply_header(header, value);
  }
  return {};
}

}  // namespace verbena::s3
