// Links that lend memory of their own alone (fabric/local), so that the bytes of other memory are copied.
#pragma once

#include "base/bytes.h"

namespace verbena::fabric {

class OwnMemoryLink {
 public:
  // Whether lend() takes this memory: it is of allocate().
  virtual bool is_own(Bytes memory) const = 0;

 protected:
  ~OwnMemoryLink() = default;
};

}  // namespace verbena::fabric
