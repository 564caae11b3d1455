// The checksum of what moved by RDMA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
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
  // The known checksums, if the whole object moves.
  void know(const std::vector<store::Checksum>& checksums) {
    for (const auto& one : checksums) {
      if (one.algorithm == algorithm_ && one.parts == 0) known_ = to_base64(as_bytes(one.value));
    }
  }
  void update(Bytes bytes) {
    if (known_) return;
    if (!digest_) digest_.emplace(algorithm_);
    digest_->update(bytes);
  }
  void tell(Context& context) {
    context.reply_header(
        algorithm_ == Algorithm::crc32c ? "x-amz-rdma-checksum-crc32c" : "x-amz-rdma-checksum-crc64nvme", value());
  }
  // hipObject's spelling of the same.
  void tell_hipobj(Context& context) {
    const char* const name = algorithm_ == Algorithm::crc32c ? "CRC32C " : "CRC64NVME ";
    context.response.headers.emplace_joined("x-amz-rdma-checksum", name, value());
  }

 private:
  const std::string& value() {
    if (!known_) {
      update({});
      known_ = digest_->finish_base64();
    }
    return *known_;
  }

  Algorithm algorithm_;
  std::optional<std::string> known_;
  std::optional<Digest> digest_;
};

}  // namespace verbena::s3
