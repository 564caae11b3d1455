// aws-chunked bodies: an object in chunks, each perhaps signed, perhaps with trailers behind them. Sources: AWS
// "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks" and "... Including
// Trailing Headers"; deviations of SDKs are noted where they matter.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "base/checksum.h"
#include "memory/stream.h"
#include "s3/types.h"

namespace verbena::http {

// The object's bytes out of a framed body. They are read straight into the caller's buffer; only what arrives along
// with a chunk's header (a few KiB) is copied.
//
// Errors: incomplete_body (the body ends early, or does not add up to the decoded length),
// signature_does_not_match (a chunk's or the trailers'), malformed_trailer, invalid_request (broken framing, bytes
// after the end), and whatever the wire reports.
class AwsChunkedSource final : public memory::Source {
 public:
  struct Options {
    uint64_t decoded_length = 0;             // x-amz-decoded-content-length
    bool trailers = false;                   // the payload kind has trailers
    std::vector<std::string> trailer_names;  // x-amz-trailer: lower case
    const auth::Verified* signer = nullptr;  // for signed chunks; must outlive the source
  };
  AwsChunkedSource(memory::Source& wire, Options options);

  std::optional<uint64_t> size() const override { return options_.decoded_length; }
  Task<Result<void>> ready() override;
  Task<Result<size_t>> read(MutableBytes into) override;
  uint64_t arrived() const override { return wire_.arrived(); }  // framing included

  // The trailers behind the object; complete once read() has met the end. Names lower case.
  const s3::Headers& trailers() const { return trailers_; }

 private:
  static constexpr size_t buffer_bytes = 4096;

  Task<Result<size_t>> read_framed(MutableBytes into);
  Task<Result<void>> begin_chunk();
  Task<Result<void>> end_chunk();
  Task<Result<void>> end_of_body();
  Task<Result<void>> read_trailers();
  Task<Result<bool>> take_line(std::string& out);  // false: the body ended first, with no byte of a line
  Task<Result<bool>> fill();                       // false: the wire has no more
  Result<void> parse_chunk_header(std::string_view line);
  Result<void> take_trailer(std::string_view line);
  Result<void> check_chunk_signature();
  Result<void> check_trailers();

  memory::Source& wire_;
  Options options_;
  std::array<std::byte, buffer_bytes> buffer_;  // framing, and bytes received with it
  size_t begin_ = 0, end_ = 0;
  bool wire_ended_ = false;

  uint64_t received_ = 0;  // decoded bytes so far
  uint64_t chunk_left_ = 0;
  bool in_chunk_ = false;
  bool done_ = false;
  std::optional<Error> error_;

  std::optional<Digest> digest_;  // of the current chunk
  std::string chunk_signature_;   // as the chunk's header claims it
  std::string previous_signature_;
  std::string line_;
  s3::Headers trailers_;
  std::string trailer_text_;  // canonical, for the trailer signature
  std::string trailer_signature_;
};

}  // namespace verbena::http
