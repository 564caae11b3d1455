#include "s3/objects/checksums.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/text.h"
#include "s3/query.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view header_prefix = "x-amz-checksum-";

std::optional<Algorithm> algorithm_of_header(std::string_view name) {
  if (!name.starts_with(header_prefix)) return std::nullopt;
  return parse_algorithm(name.substr(header_prefix.size()));
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

uint64_t big_endian(std::string_view raw) {
  uint64_t value = 0;
  for (const char c : raw) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

std::string to_big_endian(uint64_t value, size_t size) {
  std::string raw(size, '\0');
  for (size_t i = size; i-- > 0; value >>= 8) raw[i] = static_cast<char>(value & 0xff);
  return raw;
}

// Algorithms whose checksums can be combined.
uint64_t combine(Algorithm algorithm, uint64_t a, uint64_t b, uint64_t b_size) {
  switch (algorithm) {
    case Algorithm::crc32:
      return crc32_combine(static_cast<uint32_t>(a), static_cast<uint32_t>(b), b_size);
    case Algorithm::crc32c:
      return crc32c_combine(static_cast<uint32_t>(a), static_cast<uint32_t>(b), b_size);
    default:
      return crc64_nvme_combine(a, b, b_size);
  }
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

std::string digest_of(Algorithm algorithm, std::string_view text) {
  Digest digest(algorithm);
  digest.update(as_bytes(text));
  return digest.finish();
}

}  // namespace

bool can_be_combined(Algorithm algorithm) {
  return algorithm == Algorithm::crc32 || algorithm == Algorithm::crc32c || algorithm == Algorithm::crc64nvme;
}

std::string checksum_header(Algorithm algorithm) { return std::string(header_prefix) + lower(to_string(algorithm)); }

std::string checksum_element(Algorithm algorithm) { return "Checksum" + std::string(to_string(algorithm)); }

std::string format_checksum(const store::Checksum& checksum) {
  std::string text = to_base64(as_bytes(checksum.value));
  if (checksum.parts != 0) text += "-" + std::to_string(checksum.parts);
  return text;
}

Result<store::Checksum> parse_checksum(Algorithm algorithm, std::string_view text) {
  store::Checksum checksum{algorithm, {}, 0};
  // '-' is not in base64's alphabet.
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto parts = parse_decimal(text.substr(dash + 1));
    if (!parts || *parts < 1 || *parts > store::part_number_max) return fail(Errc::invalid_checksum, "checksum parts");
    checksum.parts = static_cast<uint16_t>(*parts);
    text = text.substr(0, dash);
  }
  const auto raw = from_base64(text);
  if (!raw || raw->size() != digest_size(algorithm)) return fail(Errc::invalid_checksum, "checksum value");
  checksum.value = as_text(*raw);
  return checksum;
}

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

void add_default_checksum(PutRequest& put) {
  if (put.md5_etag && put.expected.empty() && !put.compute) put.compute = default_checksum;
}

Result<void> require_digest(const Context& context) {
  const auto is_digest = [](const auto& header) {
    return header.first == "content-md5" || header.first == "x-amz-trailer" ||
           (header.first.starts_with(header_prefix) && algorithm_of_header(header.first));
  };
  if (std::ranges::any_of(context.request.headers, is_digest)) return {};
  return fail(Errc::invalid_request, "Missing required header for this request: Content-MD5 OR x-amz-checksum-*.");
}

Result<void> verify_document(const Context& context, std::string_view text) {
  VB_ASSIGN(const auto md5, content_md5(context));
  if (md5 && *md5 != digest_of(Algorithm::md5, text)) return fail(Errc::bad_digest, "Content-MD5");
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
  if (given && given->value != digest_of(given->algorithm, text)) return fail(Errc::bad_digest, "checksum");
  return {};
}

namespace {

void add_checksums(Response& response, const std::vector<store::Checksum>& checksums, bool composite) {
  for (const auto& checksum : checksums) {
    response.headers.emplace_back(checksum_header(checksum.algorithm), format_checksum(checksum));
  }
  if (!checksums.empty()) {
    response.headers.emplace_back("x-amz-checksum-type", composite ? "COMPOSITE" : "FULL_OBJECT");
  }
}

bool is_composite(const std::vector<store::Checksum>& checksums) {
  return !checksums.empty() && checksums.front().parts != 0;
}

}  // namespace

void add_checksum_headers(Response& response, const std::vector<store::Checksum>& checksums) {
  add_checksums(response, checksums, is_composite(checksums));
}

void add_part_checksum_headers(Response& response, const store::ObjectInfo& info, size_t index) {
  add_checksums(response, info.parts[index].checksums, is_composite(info.checksums));
}

std::optional<store::Checksum> combine_checksums(Algorithm algorithm, bool full_object,
                                                 const std::vector<store::PartInfo>& parts) {
  if (full_object && !can_be_combined(algorithm)) return std::nullopt;
  std::string values;
  uint64_t crc = 0;
  bool first = true;
  for (const auto& part : parts) {
    const auto has = [&](const store::Checksum& c) { return c.algorithm == algorithm && c.parts == 0; };
    const auto found = std::ranges::find_if(part.checksums, has);
    if (found == part.checksums.end()) return std::nullopt;
    if (!full_object) {
      values += found->value;
      continue;
    }
    crc = first ? big_endian(found->value) : combine(algorithm, crc, big_endian(found->value), part.size);
    first = false;
  }
  if (full_object) return store::Checksum{algorithm, to_big_endian(crc, digest_size(algorithm)), 0};
  return store::Checksum{algorithm, digest_of(algorithm, values), static_cast<uint16_t>(parts.size())};
}

}  // namespace verbena::s3
