// When a read renews the end of its object's life.
#pragma once

#include <cstdint>

#include "store/ends.h"

namespace verbena::store {

// Not before a tenth of the TTL has passed since the last renewal. Without a TTL: never.
inline bool is_renewal_due(const ObjectInfo& info, int64_t now_us) {
  const int64_t ttl_us = ttl_s_of(info) * 1'000'000;
  return ttl_us != 0 && end_us_of(info) - now_us <= ttl_us - ttl_us / 10;
}

}  // namespace verbena::store
