// The checksum of what moved by RDMA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "s3/objects/checksums.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// The checksum of exactly the bytes that moved, which newer clients compare with their memory. The request chooses the
// algorithm. Known checksums are not computed again.
class Delivered {
 public:
  explicit Delivered(const Context& context)
      : algorithm_(parse_algorithm(context.request.header("x-amz-rdma-checksum-algorithm").value_or("")) ==
                           Algorithm::crc32c
                       ? Algorithm::crc32c
                       : Algorithm::crc64nvme) {}
  Algorithm algorithm() const { return algorithm_; }
  // The header of S3 that has the same checksum.
  std::string s3_header() const { return checksum_header(algorithm_); }
  // It is computed elsewhere, and will be known before it is told.
  void leave() { is_left_ = true; }

  // The known checksums, if the whole object moves.
  void know(const std::vector<store::Checksum>& checksums) {
    for (const auto& one : checksums) {
      if (one.algorithm == algorithm_ && one.parts == 0) known_ = to_base64(as_bytes(one.value));
    }
  }
  // A whole object's, as a header of S3 has it.
  void know(std::string_view base64) {
    if (!base64.empty() && base64.find('-') == base64.npos) known_ = base64;
  }
  void update(Bytes bytes) {
    if (known_ || is_left_) return;
    digest_.update(bytes);
  }
  void tell(Context& context) {
    if (!finish()) return;
    context.reply_header(
        algorithm_ == Algorithm::crc32c ? "x-amz-rdma-checksum-crc32c" : "x-amz-rdma-checksum-crc64nvme", *known_);
  }
  // hipObject's spelling of the same.
  void tell_hipobj(Context& context) {
    if (!finish()) return;
    const char* const name = algorithm_ == Algorithm::crc32c ? "CRC32C " : "CRC64NVME ";
    context.response.headers.emplace_joined("x-amz-rdma-checksum", name, *known_);
  }

 private:
  bool finish() {
    if (!known_ && !is_left_) known_ = digest_.finish_base64();
    return known_.has_value();
  }

  Algorithm algorithm_;
  Digest digest_{algorithm_};
  std::optional<std::string> known_;
  bool is_left_ = false;
};

}  // namespace verbena::s3
