// What a Source may be, too: one that hashes its bytes itself, and adds them to their reader's MD5 in the same pass.
#pragma once

#include "base/md5.h"

namespace verbena::memory {

class HashesAlong {
 public:
  // Before the first read(): all bytes that read() returns are added to `md5`, which stays in its place until the
  // source has been read.
  virtual void hash_along(Md5& md5) = 0;

 protected:
  ~HashesAlong() = default;
};

}  // namespace verbena::memory
