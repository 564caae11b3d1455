#include "s3_http/checksum_headers.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/text.h"
#include "s3/objects/checksums.h"

namespace verbena::s3 {
namespace {

std::optional<Algorithm> algorithm_of_header(std::string_view name) {
  if (!name.starts_with(checksum_header_prefix)) return std::nullopt;
  return parse_algorithm(name.substr(checksum_header_prefix.size()));
}

// x-amz-trailer names the trailers; only one checksum may be among them.
Result<std::optional<Algorithm>> announced_trailer(const Context& context) {
  const auto header = context.request.header("x-amz-trailer");
  if (!header) return std::nullopt;
  const auto algorithm = algorithm_of_header(lower(*header));
  if (!algorithm) {
    return fail(Errc::invalid_request, "The value specified in the x-amz-trailer header is not supported.");
  }
  return algorithm;
}

Result<std::vector<store::Checksum>> trailing_checksum(const std::function<Headers()>& trailing, Algorithm algorithm) {
  const std::string wanted = checksum_header(algorithm);
  if (trailing) {
    for (const auto& [name, value] : trailing()) {
      if (lower(name) != wanted) continue;
      VB_ASSIGN(store::Checksum checksum, parse_checksum(algorithm, value));
      if (checksum.parts != 0) break;
      return std::vector{std::move(checksum)};
    }
  }
  return fail(Errc::malformed_trailer, "checksum trailer is missing");
}

Result<std::optional<std::string>> content_md5(const Context& context) {
  const auto header = context.request.header("content-md5");
  if (!header) return std::nullopt;
  const auto raw = from_base64(*header);
  if (!raw || raw->size() != digest_size(Algorithm::md5)) return fail(Errc::invalid_digest, "Content-MD5");
  return std::string(as_text(*raw));
}

// x-amz-sdk-checksum-algorithm must repeat the algorithm of the request's checksum.
Result<void> check_named_algorithm(const Context& context, std::optional<Algorithm> sent) {
  const auto named = context.request.header("x-amz-sdk-checksum-algorithm");
  if (!named) return {};
  const auto algorithm = parse_algorithm(*named);
  if (algorithm && (!sent || *sent == *algorithm)) return {};
  return fail(Errc::invalid_request, "Value for x-amz-sdk-checksum-algorithm header is invalid.");
}

}  // namespace

Result<std::optional<store::Checksum>> header_checksum(const Context& context) {
  std::optional<store::Checksum> found;
  for (const auto& [name, value] : context.request.headers) {
    const auto algorithm = algorithm_of_header(name);
    if (!algorithm || (found && found->algorithm == *algorithm)) continue;  // the first of a repeated header counts
    if (found) {
      return fail(Errc::invalid_request,
                  "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.");
    }
    VB_ASSIGN(found, parse_checksum(*algorithm, value));
  }
  return found;
}

Result<std::optional<Algorithm>> read_checksum_algorithm(const Context& context) {
  const auto named = context.header("x-amz-checksum-algorithm");
  if (!named) return std::nullopt;
  const auto algorithm = parse_algorithm(*named);
  if (!algorithm) return fail(Errc::invalid_request, "Checksum algorithm provided is unsupported.");
  return algorithm;
}

Result<void> plan_checksums(const Context& context, PutRequest& put) {
  VB_ASSIGN(put.content_md5, content_md5(context));
  VB_ASSIGN(const auto given, header_checksum(context));
  VB_ASSIGN(const auto announced, announced_trailer(context));
  if (given && announced) {
    return fail(Errc::invalid_request, "A checksum may be in a header or in a trailer, not in both.");
  }
  if (given) {
    if (given->parts != 0) return fail(Errc::invalid_checksum, "composite checksum of a single body");
    put.expected.push_back(*given);
  }
  if (announced) {
    put.compute = announced;
    put.trailing = [&trailing = context.trailing, algorithm = *announced] {
      return trailing_checksum(trailing, algorithm);
    };
  }
  std::optional<Algorithm> sent = announced;
  if (given) sent = given->algorithm;
  VB_TRY(check_named_algorithm(context, sent));
  if (!sent && context.request.header("x-amz-sdk-checksum-algorithm")) {
    return fail(Errc::invalid_request,
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer "
                "headers were found.");
  }
  VB_ASSIGN(const auto asked, read_checksum_algorithm(context));
  if (asked && sent && *asked != *sent) {
    return fail(Errc::invalid_request, "x-amz-checksum-algorithm names another algorithm than the checksum has.");
  }
  if (asked) put.compute = asked;
  return {};
}

Result<void> require_digest(const Context& context) {
  const auto is_digest = [](const auto& header) {
    return header.first == "content-md5" || header.first == "x-amz-trailer" ||
           (header.first.starts_with(checksum_header_prefix) && algorithm_of_header(header.first));
  };
  if (std::ranges::any_of(context.request.headers, is_digest)) return {};
  return fail(Errc::invalid_request, "Missing required header for this request: Content-MD5 OR x-amz-checksum-*.");
}

Result<void> verify_document(const Context& context, std::string_view text) {
  VB_ASSIGN(const auto md5, content_md5(context));
  if (md5 && *md5 != digest_text(Algorithm::md5, text)) return fail(Errc::bad_digest, "Content-MD5");
  VB_TRY(check_named_algorithm(context, std::nullopt));
  // For CompleteMultipartUpload the header is about the object, not the document.
  if (context.query.has("uploadId")) return {};
  VB_ASSIGN(std::optional<store::Checksum> given, header_checksum(context));
  VB_ASSIGN(const auto announced, announced_trailer(context));
  if (given && announced) {
    return fail(Errc::invalid_request, "A checksum may be in a header or in a trailer, not in both.");
  }
  VB_TRY(check_named_algorithm(context, given ? std::optional(given->algorithm) : announced));
  if (announced) {
    VB_ASSIGN(auto trailed, trailing_checksum(context.trailing, *announced));
    given = std::move(trailed.front());
  }
  if (given && given->value != digest_text(given->algorithm, text)) return fail(Errc::bad_digest, "checksum");
  return {};
}

namespace {

void add_checksums(Response& response, const std::vector<store::Checksum>& checksums, std::string_view type) {
  for (const auto& checksum : checksums) {
    response.headers.emplace_back(checksum_header(checksum.algorithm), format_checksum(checksum));
  }
  if (!checksums.empty()) response.headers.emplace_back("x-amz-checksum-type", type);
}

}  // namespace

void add_checksum_headers(Response& response, const std::vector<store::Checksum>& checksums) {
  add_checksums(response, checksums, checksum_type(checksums));
}

void add_part_checksum_headers(Response& response, const store::ObjectInfo& info, size_t index) {
  add_checksums(response, info.parts[index].checksums, checksum_type(info.checksums));
}

}  // namespace verbena::s3
