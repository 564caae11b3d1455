// Verification of a body whose SHA-256 was signed with the request.
#pragma once

#include "base/checksum.h"
#include "base/hmac.h"
#include "memory/stream.h"

namespace verbena::http {

// Passes on the bytes of `wire`; fails with content_sha256_mismatch at their end if they are not the signed ones.
class Sha256Source final : public memory::Source {
 public:
  Sha256Source(memory::Source& wire, const Sha256& expected);
  std::optional<uint64_t> size() const override { return wire_.size(); }
  Task<Result<void>> ready() override { return wire_.ready(); }
  Task<Result<size_t>> read(MutableBytes into) override;
  uint64_t arrived() const override { return wire_.arrived(); }

 private:
  memory::Source& wire_;
  Sha256 expected_;
  Digest digest_;
  uint64_t read_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
};

}  // namespace verbena::http
