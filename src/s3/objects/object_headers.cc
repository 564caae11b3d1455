#include "s3/objects/object_headers.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "s3/names.h"
#include "store/ends.h"

namespace verbena::s3 {
namespace {

constexpr size_t user_metadata_bytes_max = 2 * KiB;
constexpr size_t system_headers_bytes_max = 8 * KiB;
constexpr size_t redirect_bytes_max = 2 * KiB;
constexpr std::array<std::string_view, 6> system_headers = {
    "content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"};

// Storage classes are labels here: all objects are stored and read alike, and return their class.
constexpr std::array<std::string_view, 6> storage_classes = {"STANDARD",   "REDUCED_REDUNDANCY",  "STANDARD_IA",
                                                             "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"};

// RFC 9110 section 5.6.2.
bool is_token(std::string_view text) {
  constexpr std::string_view extra = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           extra.find(c) != std::string_view::npos;
  });
}

// A path of the same site, or an absolute URL (AWS, PutObject).
Result<void> check_redirect(std::string_view location) {
  if (location.size() > redirect_bytes_max) {
    return fail(Errc::invalid_argument, "The length of website redirect location cannot exceed 2,048 characters.");
  }
  if (location.starts_with('/') || location.starts_with("http://") || location.starts_with("https://")) return {};
  return fail(Errc::invalid_argument,
              "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.");
}

// A policy judges the first value of a name, and readers may take another one. User metadata are joined where they are
// read, and nothing is judged by them.
bool repeats_one_value(const Headers& headers) {
  for (auto header = headers.begin(); header != headers.end(); ++header) {
    const auto same = [&](const auto& other) { return other.first == header->first; };
    if (std::any_of(headers.begin(), header, same) && !header->first.starts_with(user_metadata_prefix)) return true;
  }
  return false;
}

Result<void> check_ttl(std::string_view value, const store::Store* store) {
  if (!store::parse_ttl(value)) {
    return fail(Errc::invalid_argument, "x-verbena-ttl must be a number of seconds from 1 to 315360000.");
  }
  if (store == nullptr) return {};
  const auto* const ends = dynamic_cast<const store::EndIndex*>(store);
  if (ends != nullptr && ends->keeps_ends()) return {};
  return fail(Errc::not_implemented,
              "This store does not keep ends of objects (x-verbena-ttl). Over Ceph it begins to ten minutes after the "
              "last server of a version that does not know them has gone.");
}

}  // namespace

bool is_system_header(std::string_view name) { return std::ranges::find(system_headers, name) != system_headers.end(); }

bool is_field_value(std::string_view text) {
  return std::ranges::none_of(text,
                              [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; });
}

bool is_storage_class(std::string_view name) {
  return std::ranges::find(storage_classes, name) != storage_classes.end();
}

Result<void> check_object_headers(const Headers& headers, const store::Store* store) {
  size_t user_bytes = 0, system_bytes = 0;
  for (const auto& [name, value] : headers) {
    if (!is_field_value(value)) return fail(Errc::invalid_argument, "A header value holds a control character.");
    if (name.starts_with(user_metadata_prefix)) {
      if (!is_token(name) || std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; })) {
        return fail(Errc::invalid_argument, "The name of a metadata header is not valid.");
      }
      user_bytes += name.size() - user_metadata_prefix.size() + value.size();
    } else if (name == storage_class_header) {
      if (value != express_class && !is_storage_class(value)) {
        return fail(Errc::invalid_storage_class, "x-amz-storage-class");
      }
    } else if (is_system_header(name)) {
      system_bytes += name.size() + value.size();
    } else if (name == redirect_header) {
      VB_TRY(check_redirect(value));
    } else if (name == store::ttl_header) {
      VB_TRY(check_ttl(value, store));
    } else {
      return fail(Errc::invalid_argument, "A header that objects do not have.");
    }
  }
  if (headers.size() > 1 && repeats_one_value(headers)) {
    return fail(Errc::invalid_argument, "A header of one value is there twice.");
  }
  if (user_bytes > user_metadata_bytes_max) return fail(Errc::metadata_too_large, "user metadata");
  if (system_bytes > system_headers_bytes_max) return fail(Errc::request_header_too_large, "system headers");
  return {};
}

std::string storage_class(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name == storage_class_header) return value;
  }
  return "STANDARD";
}

void set_storage_class(Headers& headers, std::string_view name) {
  std::erase_if(headers, [](const auto& header) { return header.first == storage_class_header; });
  if (name != "STANDARD") headers.emplace_back(storage_class_header, name);
}

Result<void> set_redirect(Headers& headers, std::optional<std::string_view> location) {
  if (location) VB_TRY(check_object_headers({{std::string(redirect_header), std::string(*location)}}));
  std::erase_if(headers, [](const auto& header) { return header.first == redirect_header; });
  if (location) headers.emplace_back(redirect_header, *location);
  return {};
}

Result<void> check_storage_class(const Headers& headers, std::string_view bucket) {
  const bool directory = is_directory_bucket(bucket);
  for (const auto& [name, value] : headers) {
    if (name != storage_class_header || (value == express_class) == directory) continue;
    return fail(Errc::invalid_storage_class, "x-amz-storage-class");
  }
  return {};
}

Result<void> check_headers_for(const Headers& headers, std::string_view bucket) {
  VB_TRY(check_storage_class(headers, bucket));
  const auto is_redirect = [](const auto& header) { return header.first == redirect_header; };
  if (!is_directory_bucket(bucket) || std::ranges::none_of(headers, is_redirect)) return {};
  return fail(Errc::not_implemented, "Objects of directory buckets have no redirect.");
}

void name_storage_class(Headers& headers, std::string_view bucket) {
  if (is_directory_bucket(bucket)) return set_storage_class(headers, express_class);
  std::erase_if(headers,
                [](const auto& header) { return header.first == storage_class_header && header.second == "STANDARD"; });
}

Result<void> settle_storage_class(Headers& headers, std::string_view bucket) {
  VB_TRY(check_storage_class(headers, bucket));
  name_storage_class(headers, bucket);
  return {};
}

}  // namespace verbena::s3
