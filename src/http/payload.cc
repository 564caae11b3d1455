#include "http/payload.h"

#include <charconv>

#include "base/text.h"

namespace verbena::http {
namespace {

const Sha256& empty_sha256() {
  static const Sha256 hash = sha256_of({});
  return hash;
}

std::string_view header(const s3::Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

// "x-amz-checksum-crc32c, x-amz-other", lower-cased.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  std::string name;
  for (char c : text) {
    if (c == ',') {
      if (!name.empty()) names.push_back(std::move(name));
      name.clear();
    } else if (c != ' ' && c != '\t') {
      name += lower(c);
    }
  }
  if (!name.empty()) names.push_back(std::move(name));
  return names;
}

}  // namespace

Result<void> PayloadSource::open(Exchange& exchange, const auth::Verified& verified) {
  using auth::Payload;
  top_ = &exchange.body();
  length_ = exchange.content_length();
  switch (verified.payload) {
    case Payload::none:
    case Payload::unsigned_payload:
      return {};
    case Payload::sha256: {
      const bool has_body = length_ ? *length_ != 0 : !header(exchange.headers(), "transfer-encoding").empty();
      if (has_body) {
        top_ = &sha256_.emplace(exchange.body(), verified.payload_sha256);
      } else if (verified.payload_sha256 != empty_sha256()) {
        return fail(Errc::content_sha256_mismatch, "x-amz-content-sha256 is of a body, but the request has none.");
      }
      return {};
    }
    case Payload::chunked_signed:
    case Payload::chunked_signed_trailer:
    case Payload::chunked_unsigned_trailer:
      break;
  }
  AwsChunkedSource::Options options;
  const auto text = header(exchange.headers(), "x-amz-decoded-content-length");
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), options.decoded_length);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size()) {
    return fail(Errc::missing_content_length, "A streaming payload needs x-amz-decoded-content-length.");
  }
  options.trailers = verified.payload != Payload::chunked_signed;
  options.signer = verified.payload == Payload::chunked_unsigned_trailer ? nullptr : &verified;
  if (options.trailers) options.trailer_names = split_names(header(exchange.headers(), "x-amz-trailer"));
  length_ = options.decoded_length;
  chunked_ = std::make_unique<AwsChunkedSource>(exchange.body(), std::move(options));
  top_ = chunked_.get();
  return {};
}

}  // namespace verbena::http
