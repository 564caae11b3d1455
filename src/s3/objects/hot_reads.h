// Many reads of one bucket for one caller: what the bucket's record and the caller's rights say of all its objects
// alike is asked once, and again when either has changed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

class HotReads {
 public:
  HotReads() = default;
  // `caller` and `bucket` outlive it; the caller may become another one meanwhile.
  HotReads(Service& service, const Call& caller, std::string_view bucket)
      : service_(&service), caller_(&caller), bucket_(bucket) {}

  // The object of this key where it lies in memory as it is sent, and the caller may read all of the bucket: what the
  // first look of an ObjectRead of a request that says nothing but the name would open. null: it does not lie in
  // memory. nullopt: an ObjectRead is to be asked.
  std::optional<std::shared_ptr<store::ObjectReader>> find(std::string_view key);

  // Of many at once: whether find() of any key would look in memory.
  bool looks_in_memory();

 private:
  bool may_read_all();

  Service* service_ = nullptr;
  const Call* caller_ = nullptr;
  std::string_view bucket_;
  // What may_read_all() found, and of what: none yet.
  bool all_ = false;
  uint64_t access_ = 0, credentials_ = 0;
};

}  // namespace verbena::s3
