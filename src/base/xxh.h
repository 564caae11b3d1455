// S3's three XXHASH checksums. Source: xxHash's specification, doc/xxhash_spec.md (Collet).
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena {

// One running hash of xxhash64, xxhash3 or xxhash128.
class XxHash {
 public:
  static bool makes(Algorithm algorithm);
  explicit XxHash(Algorithm algorithm);
  ~XxHash();
  void update(Bytes data);
  // The canonical form: big-endian, of 128 bits the high half first.
  std::string finish() const;

 private:
  struct State;
  const Algorithm algorithm_;
  const std::unique_ptr<State> state_;
};

}  // namespace verbena
