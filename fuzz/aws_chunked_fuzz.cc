// An aws-chunked body. The first byte selects signed or not, trailers or not, and the size of the reads; the second is
// the decoded length. An accepted body has that length, and reading it in other steps gives the same.
#include <cstdlib>
#include <memory>

#include "http/aws_chunked.h"
#include "http/test_drain.h"
#include "memory/text_source.h"

namespace {

using namespace verbena;

struct Outcome {
  Errc error;
  std::string bytes;
  s3::Headers trailers;
};

Outcome decode(std::string_view body, http::AwsChunkedSource::Options options, size_t step) {
  memory::TextSource wire(body);
  const auto source = std::make_unique<http::AwsChunkedSource>(wire, std::move(options));
  Outcome outcome{};
  outcome.error = http::drain(*source, step, outcome.bytes);
  outcome.trailers = source->trailers();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const auth::Verified signer = [] {
    auth::Verified verified;
    verified.seed_signature = std::string(64, '0');
    verified.amz_date = "20130524T000000Z";
    verified.scope = "20130524/us-east-1/s3/aws4_request";
    return verified;
  }();
  const http::AwsChunkedSource::Options options{
      data[1], (data[0] & 1) != 0, {"x-amz-checksum-crc32"}, (data[0] & 2) != 0 ? &signer : nullptr};
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto a = decode(body, options, 1 + (data[0] >> 2));
  const auto b = decode(body, options, 4096);
  if (a.error != b.error) std::abort();
  if (a.error != Errc::ok) return 0;
  if (a.bytes.size() != data[1] || a.bytes != b.bytes || a.trailers != b.trailers) std::abort();
  return 0;
}
