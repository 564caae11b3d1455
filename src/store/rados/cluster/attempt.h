// The outcome of one attempt at what other servers may prevent by a change of their own.
#pragma once

#include <cstdint>

namespace verbena::store::rados {

enum class Attempt : uint8_t {
  done,
  again,  // not yet: what it goes by has changed, or something else had to come first
};

}  // namespace verbena::store::rados
