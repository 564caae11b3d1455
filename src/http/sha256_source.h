// Verification of a body whose SHA-256 was signed with the request.
#pragma once

#include "base/running_sha256.h"
#include "memory/hashes_along.h"
#include "memory/stream.h"

namespace verbena::http {

// Passes on the bytes of `wire`; fails with content_sha256_mismatch at their end if they are not the signed ones.
class Sha256Source final : public memory::Source, public memory::HashesAlong {
 public:
  Sha256Source(memory::Source& wire, const Sha256& expected);
  std::optional<uint64_t> size() const override { return wire_.size(); }
  Task<Result<void>> ready() override { return wire_.ready(); }
  Task<Result<size_t>> read(MutableBytes into) override;
  void hash_along(Md5& md5) override { md5_ = &md5; }
  uint64_t arrived() const override { return wire_.arrived(); }

 private:
  memory::Source& wire_;
  Sha256 expected_;
  RunningSha256 digest_;
  Md5* md5_ = nullptr;  // the reader's; null: it wants none
  uint64_t read_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
};

}  // namespace verbena::http
