#include "s3/access_generation.h"

#include "base/siphash.h"
#include "s3/service.h"

namespace verbena::s3 {

// The upper bits distinguish servers of one process (tests have several), which may share threads and so their caches.
AccessGeneration::AccessGeneration() {
  fill_random(buckets_secret_);
  fill_random(owners_secret_);
  static std::atomic<uint64_t> servers{0};
  all_ = (servers.fetch_add(1) + 1) << 40;
}

std::shared_ptr<AccessGeneration> make_access_generation() { return std::make_shared<AccessGeneration>(); }

AccessGeneration::Place AccessGeneration::place_of(std::string_view bucket) const {
  return Place(siphash13(buckets_secret_, as_bytes(bucket)) % places);
}

AccessGeneration::Place AccessGeneration::place_of_owner(std::string_view canonical_id) const {
  return Place(siphash13(owners_secret_, as_bytes(canonical_id)) % places);
}

}  // namespace verbena::s3
