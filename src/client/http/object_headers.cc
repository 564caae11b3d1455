#include "client/http/object_headers.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text.h"
#include "client/http/s3_xml.h"

namespace verbena::client {
namespace {

constexpr std::string_view meta_prefix = "x-amz-meta-";

bool printable(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

bool is_token(std::string_view name) {
  static constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  for (char c : name) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alnum && others.find(c) == others.npos) return false;
  }
  return !name.empty();
}

std::string quoted(const std::string& etag) { return etag == "*" ? etag : "\"" + etag + "\""; }

std::string header_or_empty(const net::HttpReply& reply, std::string_view name) {
  return std::string(reply.header(name).value_or(std::string_view()));
}

// "bytes 0-99/1234" -> 1234
std::optional<uint64_t> total_of(std::string_view content_range) {
  const size_t slash = content_range.find('/');
  if (slash == content_range.npos) return std::nullopt;
  const std::string_view digits = content_range.substr(slash + 1);
  uint64_t total = 0;
  auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), total);
  if (ec != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return total;
}

// Cheapest to check first.
constexpr Algorithm by_cost[] = {Algorithm::crc32c,   Algorithm::crc32,     Algorithm::crc64nvme, Algorithm::xxhash3,
                                 Algorithm::xxhash64, Algorithm::xxhash128, Algorithm::sha1,      Algorithm::sha256,
                                 Algorithm::md5,      Algorithm::sha512};
static_assert(std::size(by_cost) == std::size(all_algorithms));

}  // namespace

bool is_stored_header(std::string_view name) {
  constexpr std::string_view all[] = {"cache-control", "content-disposition", "content-encoding", "content-language",
                                      "expires"};
  return std::ranges::find(all, name) != std::end(all);
}

Outcome<net::HttpHeaders> put_headers(const PutOptions& options) {
  net::HttpHeaders out;
  if (!options.content_type.empty()) {
    if (!printable(options.content_type)) return fault(ErrorCode::invalid_argument, "content type: not printable");
    out.emplace_back("content-type", options.content_type);
  }
  for (const auto& [name, value] : options.headers) {
    if (!is_stored_header(name)) return fault(ErrorCode::invalid_argument, "header '" + name + "': is not stored");
    if (!printable(value)) return fault(ErrorCode::invalid_argument, "header '" + name + "': value not printable");
    out.emplace_back(name, value);
  }
  for (const auto& [name, value] : options.metadata) {
    if (!is_token(name)) return fault(ErrorCode::invalid_argument, "metadata name '" + name + "': not allowed");
    if (!printable(value)) return fault(ErrorCode::invalid_argument, "metadata '" + name + "': value not printable");
    out.emplace_back(std::string(meta_prefix) + lower(name), value);
  }
  if (options.ttl.count() != 0) out.emplace_back("x-verbena-ttl", std::to_string(options.ttl.count()));
  if (!options.if_match.empty()) out.emplace_back("if-match", quoted(options.if_match));
  if (!options.if_none_match.empty()) out.emplace_back("if-none-match", quoted(options.if_none_match));
  if (options.append_at) out.emplace_back("x-amz-write-offset-bytes", std::to_string(*options.append_at));
  return out;
}

net::HttpHeaders get_headers(const GetOptions& options) {
  net::HttpHeaders out;
  if (options.range) {
    std::string range = "bytes=" + std::to_string(options.range->offset) + "-";
    if (options.range->length > 0) range += std::to_string(options.range->offset + options.range->length - 1);
    out.emplace_back("range", std::move(range));
  }
  if (!options.if_match.empty()) out.emplace_back("if-match", quoted(options.if_match));
  if (!options.if_none_match.empty()) out.emplace_back("if-none-match", quoted(options.if_none_match));
  return out;
}

ObjectInfo object_info(const net::HttpReply& reply, std::string_view key) {
  ObjectInfo info;
  info.key = key;
  if (auto range = reply.header("content-range")) {
    info.size = total_of(*range).value_or(0);
  } else {
    info.size = reply.content_length.value_or(reply.body_bytes);
  }
  info.etag = header_or_empty(reply, "etag");
  if (info.etag.size() >= 2 && info.etag.front() == '"') info.etag = info.etag.substr(1, info.etag.size() - 2);
  info.last_modified = parse_http_time(header_or_empty(reply, "last-modified"));
  info.content_type = header_or_empty(reply, "content-type");
  info.version_id = header_or_empty(reply, "x-amz-version-id");
  for (const auto& [name, value] : reply.headers) {
    if (name.starts_with(meta_prefix)) {
      info.metadata.emplace(name.substr(meta_prefix.size()), value);
    } else if (name != "content-type") {
      info.headers.emplace(name, value);
    }
  }
  for (Algorithm algorithm : by_cost) {
    const std::string name = lower(std::string(to_string(algorithm)));
    if (auto value = reply.header("x-amz-checksum-" + name)) {
      info.checksum = std::string(to_string(algorithm)) + ":" + std::string(*value);
      break;
    }
  }
  return info;
}

std::map<std::string, std::string> said_headers(const net::HttpReply& reply) {
  std::map<std::string, std::string> said;
  for (const auto& [name, value] : reply.headers) {
    const bool of_object = name.starts_with("x-amz-server-side-encryption") || name.starts_with("x-amz-checksum-") ||
                           name == "x-amz-expiration";
    if (of_object) said.emplace(name, value);
  }
  return said;
}

std::optional<KnownChecksum> checksum_of(const net::HttpReply& reply) {
  if (reply.header("x-amz-checksum-type") == "COMPOSITE") return std::nullopt;
  for (Algorithm algorithm : by_cost) {
    auto value = reply.header("x-amz-checksum-" + lower(std::string(to_string(algorithm))));
    if (value && value->find('-') == value->npos) return KnownChecksum{algorithm, std::string(*value)};
  }
  return std::nullopt;
}

bool matches(const std::optional<KnownChecksum>& known, Bytes bytes) {
  if (!known) return true;
  Digest digest(known->algorithm);
  digest.update(bytes);
  return digest.finish_base64() == known->base64;
}

Outcome<KnownChecksum> parse_checksum(std::string_view text) {
  const size_t colon = text.find(':');
  const auto algorithm = colon == text.npos ? std::nullopt : parse_algorithm(text.substr(0, colon));
  if (!algorithm) {
    return fault(
        ErrorCode::invalid_argument,
        "checksum: ALGORITHM:base64, of CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3 "
        "or XXHASH128");
  }
  KnownChecksum out{*algorithm, std::string(text.substr(colon + 1))};
  const auto raw = from_base64(out.base64);
  if (!raw || raw->size() != digest_size(*algorithm)) {
    return fault(ErrorCode::invalid_argument, "checksum: not the base64 of a digest of that algorithm");
  }
  return out;
}

std::string checksum_header(Algorithm algorithm) {
  return "x-amz-checksum-" + lower(std::string(to_string(algorithm)));
}

std::string crc32c_base64(uint32_t crc) {
  const std::byte big_endian[4] = {std::byte(crc >> 24), std::byte(crc >> 16), std::byte(crc >> 8), std::byte(crc)};
  return to_base64(big_endian);
}

}  // namespace verbena::client
