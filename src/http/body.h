// A request's body from the wire: Content-Length or chunked (RFC 9112 section 7.1). Internal to http/.
#pragma once

#include "http/head_parser.h"
#include "http/input.h"
#include "memory/stream.h"

namespace verbena::http {

// Reads straight into the caller's buffer. Errors: incomplete_body (the client closed), request_timeout (it stalled),
// invalid_request (broken chunk framing). After an error the connection can carry no further request.
class Body : public memory::Source {
 public:
  Body(Wire& wire, Input& input) : wire_(wire), input_(input) {}

  // Called before the handler. `answered`: an answer has begun, so that "100 Continue" must not be sent.
  void start(const RequestHead& head, std::chrono::nanoseconds stall_timeout, const bool* answered);

  std::optional<uint64_t> size() const override { return size_; }
  Task<Result<void>> ready() override;
  Task<Result<size_t>> read(MutableBytes into) override;

  bool complete() const { return done_; }
  uint64_t arrived() const override { return bytes_read_; }
  // True if the rest should be read to keep the connection: it is short, and the client is sending it.
  bool can_drain() const;
  // Reads the rest. False when it is longer, or malformed.
  Task<bool> drain();

  static constexpr uint64_t drain_max = 256 * KiB;

 private:
  Task<Result<void>> ask_to_continue();
  Task<Result<void>> next_chunk();
  Task<Result<void>> read_trailers();
  Task<Result<std::string_view>> line(size_t size_max);  // without CRLF; valid until the next read
  Error broken(Error error);

  Wire& wire_;
  Input& input_;
  const bool* answered_ = nullptr;
  std::chrono::nanoseconds stall_timeout_{};
  std::optional<uint64_t> size_;
  uint64_t remaining_ = 0;  // of the body, or of the current chunk
  uint64_t bytes_read_ = 0;
  bool chunked_ = false;
  bool first_chunk_ = true;
  bool done_ = true;
  bool continue_pending_ = false;
  std::optional<Error> error_;
};

}  // namespace verbena::http
