// The stack of Sources over a request's body, as its payload protection requires. Internal to http/.
#pragma once

#include <memory>
#include <optional>

#include "auth/auth.h"
#include "http/aws_chunked.h"
#include "http/server.h"
#include "http/sha256_source.h"

namespace verbena::http {

class PayloadSource {
 public:
  // `verified` and `exchange` must outlive this. invalid_request, missing_content_length (no or a bad
  // x-amz-decoded-content-length), content_sha256_mismatch (a hash of some bytes, without a body).
  Result<void> open(Exchange& exchange, const auth::Verified& verified);

  memory::Source& source() { return *top_; }
  std::optional<uint64_t> length() const { return length_; }  // decoded; nullopt when not declared
  // The trailers of an aws-chunked body, once it has ended.
  s3::Headers trailers() const { return chunked_ ? chunked_->trailers() : s3::Headers{}; }

 private:
  memory::Source* top_ = nullptr;
  std::optional<uint64_t> length_;
  std::unique_ptr<AwsChunkedSource> chunked_;
  std::optional<Sha256Source> sha256_;
};

}  // namespace verbena::http
