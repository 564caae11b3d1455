// A window's descriptor in a body.
#pragma once

#include "native/wire/bodies.h"

namespace verbena::native::wire {

inline void put_descriptor(Writer& out, const Descriptor& d) {
  out.u64(d.base);
  out.u64(d.size);
  out.u64(d.key);
}

inline Descriptor get_descriptor(Reader& in) {
  Descriptor d;
  d.base = in.u64();
  d.size = in.u64();
  d.key = in.u64();
  return d;
}

}  // namespace verbena::native::wire
