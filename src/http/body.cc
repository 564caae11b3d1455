#include "http/body.h"

#include <algorithm>
#include <array>

#include "base/hex.h"

namespace verbena::http {
namespace {

constexpr size_t chunk_line_max = 1024;
constexpr size_t chunk_size_digits_max = 15;
constexpr size_t trailer_bytes_max = 16 * KiB;

// Parses "1a2b" or "1a2b;extension". nullopt for anything that another recipient might read differently.
std::optional<uint64_t> parse_chunk_size(std::string_view line) {
  const auto size = parse_hex(line.substr(0, line.find(';')), chunk_size_digits_max);
  const bool clean = std::none_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
  return clean ? size : std::nullopt;
}

}  // namespace

void Body::start(const RequestHead& head, std::chrono::nanoseconds stall_timeout, const bool* answered) {
  answered_ = answered;
  stall_timeout_ = stall_timeout;
  size_ = head.content_length;
  chunked_ = head.chunked;
  remaining_ = head.content_length.value_or(0);
  done_ = !chunked_ && remaining_ == 0;
  first_chunk_ = true;
  bytes_read_ = 0;
  // For an empty body, too, although RFC 9110 section 10.1.1 lets a server skip it: when botocore gets a final answer
  // instead of "100 Continue", it takes its status line for the answer to the next request on the connection, even if
  // the server dies before answering that.
  continue_pending_ = head.expect_continue && (chunked_ || head.content_length);
  error_.reset();
}

Error Body::broken(Error error) {
  if (error.code == Errc::timed_out) error = Error{Errc::request_timeout, 0, "the body has stalled"};
  if (error.code == Errc::closed) error = Error{Errc::incomplete_body, error.sys, "the client closed its connection"};
  error_ = error;
  return error;
}

Task<Result<void>> Body::ask_to_continue() {
  continue_pending_ = false;
  if (!input_.empty() || *answered_) co_return Result<void>{};  // the body is arriving already, or it is too late
  wire_.head() += "HTTP/1.1 100 Continue\r\n\r\n";
  co_return co_await wire_.flush(stall_timeout_);
}

// The first bytes wait in the connection's own small buffer. (Waiting for the socket alone is not enough: under TLS
// they may have been read from it already.)
Task<Result<void>> Body::ready() {
  if (error_) co_return std::unexpected(*error_);
  if (done_ || !input_.empty()) co_return Result<void>{};
  if (continue_pending_) {
    if (auto asked = co_await ask_to_continue(); !asked) co_return std::unexpected(broken(asked.error()));
  }
  auto n = co_await input_.fill(Input::small_bytes, stall_timeout_);
  if (!n) co_return std::unexpected(broken(n.error()));
  co_return Result<void>{};
}

Task<Result<size_t>> Body::read(MutableBytes into) {
  if (error_) co_return std::unexpected(*error_);
  if (continue_pending_) {
    if (auto asked = co_await ask_to_continue(); !asked) co_return std::unexpected(broken(asked.error()));
  }
  size_t filled = 0;
  while (filled < into.size() && !done_) {
    if (remaining_ == 0) {
      if (auto next = co_await next_chunk(); !next) co_return std::unexpected(broken(next.error()));
      continue;
    }
    const size_t want = static_cast<size_t>(std::min<uint64_t>(remaining_, into.size() - filled));
    auto n = co_await input_.read(into.subspan(filled, want), stall_timeout_);
    if (!n) co_return std::unexpected(broken(n.error()));
    if (*n == 0) co_return std::unexpected(broken({Errc::incomplete_body, 0, "the client closed its connection"}));
    filled += *n;
    bytes_read_ += *n;
    remaining_ -= *n;
    if (remaining_ == 0 && !chunked_) done_ = true;
  }
  co_return filled;
}

Task<Result<std::string_view>> Body::line(size_t size_max) {
  size_t seen = 0;
  for (;;) {
    const auto view = input_.view();
    const size_t lf = view.find('\n', seen);
    if (lf != std::string_view::npos) {
      if (lf == 0 || view[lf - 1] != '\r' || lf > size_max) {
        co_return fail(Errc::invalid_request, "a line of the chunked body is malformed");
      }
      input_.consume(lf + 1);  // the bytes remain in place until the next fill
      co_return view.substr(0, lf - 1);
    }
    seen = view.size();
    if (seen > size_max) co_return fail(Errc::invalid_request, "a line of the chunked body is too long");
    auto n = co_await input_.fill(size_max + 4096, stall_timeout_);
    if (!n) co_return std::unexpected(n.error());
    if (*n == 0) co_return fail(Errc::incomplete_body, "the client closed its connection");
  }
}

Task<Result<void>> Body::next_chunk() {
  if (!first_chunk_) {
    VB_CO_ASSIGN(const std::string_view end, co_await line(2));
    if (!end.empty()) co_return fail(Errc::invalid_request, "a chunk is longer than it says");
  }
  first_chunk_ = false;
  VB_CO_ASSIGN(const std::string_view header, co_await line(chunk_line_max));
  const auto size = parse_chunk_size(header);
  if (!size) co_return fail(Errc::invalid_request, "a chunk's size is malformed");
  remaining_ = *size;
  if (*size != 0) co_return Result<void>{};
  co_return co_await read_trailers();
}

// HTTP's own trailers are skipped: S3's are inside aws-chunked.
Task<Result<void>> Body::read_trailers() {
  for (size_t total = 0; total <= trailer_bytes_max;) {
    VB_CO_ASSIGN(const std::string_view trailer, co_await line(chunk_line_max * 8));
    if (trailer.empty()) {
      done_ = true;
      co_return Result<void>{};
    }
    total += trailer.size() + 2;
  }
  co_return fail(Errc::invalid_request, "the trailers of the chunked body are too long");
}

bool Body::can_drain() const {
  if (error_ || continue_pending_) return false;
  if (done_) return true;
  return chunked_ || remaining_ <= drain_max;
}

Task<bool> Body::drain() {
  if (!can_drain()) co_return false;
  std::array<std::byte, 4096> scratch;
  for (uint64_t total = 0; !done_ && total <= drain_max;) {
    auto n = co_await read(scratch);
    if (!n) co_return false;
    total += *n;
  }
  co_return done_;
}

}  // namespace verbena::http
