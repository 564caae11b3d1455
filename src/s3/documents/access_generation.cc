#include "s3/documents/access_generation.h"

#include "s3/service.h"

namespace verbena::s3 {

AccessGeneration::AccessGeneration() {
  static std::atomic<uint64_t> servers{0};
  number_ = (servers.fetch_add(1) + 1) << 40;
}

std::shared_ptr<AccessGeneration> make_access_generation() { return std::make_shared<AccessGeneration>(); }

void AccessGeneration::changed() { number_.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace verbena::s3
