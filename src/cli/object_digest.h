// Checks an object that comes in ranges against the checksum of the whole: no door verifies a range.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/checksum.h"
#include "client/outcome.h"

namespace verbena::cli {

class ObjectDigest {
 public:
  // `checksum`: ObjectInfo::checksum. If that does not cover the whole object, nothing is checked.
  explicit ObjectDigest(const std::string& checksum) {
    const size_t colon = checksum.find(':');
    if (colon == std::string::npos || checksum.find('-') != std::string::npos) return;
    const auto algorithm = parse_algorithm(std::string_view(checksum).substr(0, colon));
    if (!algorithm) return;
    digest_.emplace(*algorithm);
    expected_ = checksum.substr(colon + 1);
  }
  void update(Bytes bytes) {  // in order
    if (digest_) digest_->update(bytes);
  }
  // Once, after the last byte. checksum_mismatch.
  Outcome<> check() {
    if (!digest_ || digest_->finish_base64() == expected_) return {};
    return client::fault(ErrorCode::checksum_mismatch, "the bytes that arrived do not match the object's checksum");
  }

 private:
  std::optional<Digest> digest_;
  std::string expected_;
};

}  // namespace verbena::cli
