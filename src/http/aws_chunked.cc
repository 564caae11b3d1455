#include "http/aws_chunked.h"

#include <algorithm>
#include <cstring>

#include "auth/chunk_signature.h"
#include "base/hex.h"
#include "base/text.h"

namespace verbena::http {
namespace {

constexpr size_t line_max = 1024;  // a chunk header is about 90 bytes, a trailer rarely more
constexpr size_t size_digits_max = 15;
constexpr size_t trailer_lines_max = 64;  // lines
constexpr std::string_view signature_key = ";chunk-signature=";
constexpr std::string_view trailer_signature_name = "x-amz-trailer-signature";

auth::ChunkContext context_of(const auth::Verified& signer) {
  return {signer.amz_date, signer.scope, signer.signing_key};
}

}  // namespace

AwsChunkedSource::AwsChunkedSource(memory::Source& wire, Options options) : wire_(wire), options_(std::move(options)) {
  if (options_.signer != nullptr) previous_signature_ = options_.signer->seed_signature;
}

Task<Result<size_t>> AwsChunkedSource::read(MutableBytes into) {
  if (error_) co_return std::unexpected(*error_);
  auto n = co_await read_framed(into);
  if (!n) error_ = n.error();
  co_return n;
}

Task<Result<void>> AwsChunkedSource::ready() {
  if (error_ || done_ || begin_ != end_) co_return Result<void>{};
  co_return co_await wire_.ready();
}

Task<Result<size_t>> AwsChunkedSource::read_framed(MutableBytes into) {
  size_t filled = 0;
  while (!done_) {
    if (!in_chunk_) {
      // With the last byte of the object, continue to the end: a reader that knows the size may never read again, and
      // must get the error of a bad signature or trailer now.
      if (filled == into.size() && received_ != options_.decoded_length) break;
      VB_CO_TRY(co_await begin_chunk());
      continue;
    }
    if (filled == into.size()) break;
    auto want = into.subspan(filled, static_cast<size_t>(std::min<uint64_t>(chunk_left_, into.size() - filled)));
    size_t n;
    if (begin_ != end_) {
      n = std::min(want.size(), end_ - begin_);
      std::memcpy(want.data(), buffer_.data() + begin_, n);
      begin_ += n;
    } else {
      VB_CO_ASSIGN(n, co_await wire_.read(want));
      if (n < want.size()) co_return fail(Errc::incomplete_body, "aws-chunked: the body ends inside a chunk");
    }
    if (digest_) digest_->update(Bytes(want).first(n));
    filled += n;
    received_ += n;
    chunk_left_ -= n;
    if (chunk_left_ == 0) VB_CO_TRY(co_await end_chunk());
  }
  co_return filled;
}

Task<Result<bool>> AwsChunkedSource::fill() {
  if (wire_ended_) co_return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const auto space = MutableBytes(buffer_).subspan(end_);
  VB_CO_ASSIGN(const size_t n, co_await wire_.read(space));
  wire_ended_ = n < space.size();
  end_ += n;
  co_return n != 0;
}

// Lines end in CRLF. A bare LF is accepted too: AWS's own trailer example ends a trailer with LF, CRLF.
Task<Result<bool>> AwsChunkedSource::take_line(std::string& out) {
  for (;;) {
    const auto waiting = as_text(Bytes(buffer_).subspan(begin_, end_ - begin_));
    const size_t lf = waiting.find('\n');
    if (lf != std::string_view::npos && lf <= line_max) {
      out.assign(waiting, 0, lf > 0 && waiting[lf - 1] == '\r' ? lf - 1 : lf);
      begin_ += lf + 1;
      co_return true;
    }
    if (waiting.size() > line_max) co_return fail(Errc::invalid_request, "aws-chunked: a line is too long");
    VB_CO_ASSIGN(const bool more, co_await fill());
    if (more) continue;
    if (begin_ != end_) co_return fail(Errc::incomplete_body, "aws-chunked: the body ends inside a line");
    co_return false;
  }
}

Result<void> AwsChunkedSource::parse_chunk_header(std::string_view line) {
  const size_t semicolon = std::min(line.find(';'), line.size());
  const auto size = parse_hex(line.substr(0, semicolon), size_digits_max);
  if (!size) return fail(Errc::invalid_request, "aws-chunked: a chunk's size is malformed");
  if (*size > options_.decoded_length - received_) {
    return fail(Errc::incomplete_body, "aws-chunked: more bytes than x-amz-decoded-content-length");
  }
  chunk_left_ = *size;
  if (options_.signer == nullptr) return {};
  const auto extension = line.substr(semicolon);
  if (!extension.starts_with(signature_key) || extension.size() != signature_key.size() + 64) {
    return fail(Errc::signature_does_not_match, "aws-chunked: a chunk has no signature");
  }
  chunk_signature_ = extension.substr(signature_key.size());
  digest_.emplace(Algorithm::sha256);
  return {};
}

Task<Result<void>> AwsChunkedSource::begin_chunk() {
  VB_CO_ASSIGN(const bool have, co_await take_line(line_));
  if (!have) co_return fail(Errc::incomplete_body, "aws-chunked: the final chunk is missing");
  VB_CO_TRY(parse_chunk_header(line_));
  if (chunk_left_ != 0) {
    in_chunk_ = true;
    co_return Result<void>{};
  }
  VB_CO_TRY(check_chunk_signature());
  if (received_ != options_.decoded_length) {
    co_return fail(Errc::incomplete_body, "aws-chunked: fewer bytes than x-amz-decoded-content-length");
  }
  co_return co_await end_of_body();
}

Task<Result<void>> AwsChunkedSource::end_chunk() {
  in_chunk_ = false;
  VB_CO_TRY(check_chunk_signature());
  VB_CO_ASSIGN(const bool have, co_await take_line(line_));
  if (!have) co_return fail(Errc::incomplete_body, "aws-chunked: the body ends after a chunk");
  if (!line_.empty()) co_return fail(Errc::invalid_request, "aws-chunked: a chunk is longer than it says");
  co_return Result<void>{};
}

Result<void> AwsChunkedSource::check_chunk_signature() {
  if (options_.signer == nullptr) return {};
  previous_signature_ = auth::chunk_signature(context_of(*options_.signer), previous_signature_, digest_->finish_hex());
  digest_.reset();
  if (!equal_constant_time(as_bytes(previous_signature_), as_bytes(chunk_signature_))) {
    return fail(Errc::signature_does_not_match, "aws-chunked: a chunk's signature is wrong");
  }
  return {};
}

Task<Result<void>> AwsChunkedSource::end_of_body() {
  if (options_.trailers) {
    VB_CO_TRY(co_await read_trailers());
    VB_CO_TRY(check_trailers());
  } else {
    // The empty line that ends the body. Some clients leave it out.
    VB_CO_ASSIGN(const bool have, co_await take_line(line_));
    if (have && !line_.empty()) co_return fail(Errc::malformed_trailer, "aws-chunked: trailers without announcement");
  }
  bool more = begin_ != end_;
  if (!more) {
    VB_CO_ASSIGN(more, co_await fill());
  }
  if (more) co_return fail(Errc::invalid_request, "aws-chunked: bytes after the end");
  done_ = true;
  co_return Result<void>{};
}

Task<Result<void>> AwsChunkedSource::read_trailers() {
  for (size_t lines = 0; lines <= trailer_lines_max; ++lines) {
    VB_CO_ASSIGN(const bool have, co_await take_line(line_));
    // AWS's example has an empty line between the trailers and their signature.
    const bool signature_due = options_.signer != nullptr && trailer_signature_.empty();
    if (!have || (line_.empty() && !signature_due)) co_return Result<void>{};
    if (!line_.empty()) VB_CO_TRY(take_trailer(line_));
  }
  co_return fail(Errc::malformed_trailer, "aws-chunked: too many trailers");
}

Result<void> AwsChunkedSource::take_trailer(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return fail(Errc::malformed_trailer, "aws-chunked: a trailer is malformed");
  }
  std::string name = lower(line.substr(0, colon));
  const auto value = trim(line.substr(colon + 1));
  if (name == trailer_signature_name) {
    if (options_.signer == nullptr || !trailer_signature_.empty()) {
      return fail(Errc::malformed_trailer, "aws-chunked: a trailer signature out of place");
    }
    trailer_signature_ = value;
    return {};
  }
  if (!trailer_signature_.empty()) return fail(Errc::malformed_trailer, "aws-chunked: a trailer after its signature");
  if (std::ranges::find(options_.trailer_names, name) == options_.trailer_names.end()) {
    return fail(Errc::malformed_trailer, "aws-chunked: a trailer that x-amz-trailer does not announce");
  }
  for (const auto& trailer : trailers_) {
    if (trailer.first == name) return fail(Errc::malformed_trailer, "aws-chunked: a trailer is repeated");
  }
  trailer_text_.append(name).append(":").append(value).append("\n");
  trailers_.emplace_back(std::move(name), value);
  return {};
}

Result<void> AwsChunkedSource::check_trailers() {
  for (const auto& name : options_.trailer_names) {
    const bool came = std::any_of(trailers_.begin(), trailers_.end(), [&](const auto& t) { return t.first == name; });
    if (!came) return fail(Errc::malformed_trailer, "aws-chunked: an announced trailer is missing");
  }
  if (options_.signer == nullptr) return {};
  const auto expected = auth::trailer_signature(context_of(*options_.signer), previous_signature_,
                                                to_hex(as_bytes(sha256(as_bytes(trailer_text_)))));
  if (!equal_constant_time(as_bytes(expected), as_bytes(trailer_signature_))) {
    return fail(Errc::signature_does_not_match, "aws-chunked: the trailers' signature is wrong");
  }
  return {};
}

}  // namespace verbena::http
