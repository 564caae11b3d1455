// Many reads of one bucket for one caller: rights that hold for all objects of the bucket are checked once, and again
// when the bucket's record or the caller's rights have changed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "s3/service.h"

namespace verbena::s3 {

class HotReads {
 public:
  HotReads() = default;
  // `caller` and `bucket` must outlive it; the caller's value may change meanwhile.
  HotReads(Service& service, const Call& caller, std::string_view bucket)
      : service_(&service), caller_(&caller), bucket_(bucket) {}

  // The object of this key, if it is in memory in the form in which it is sent and the caller may read the whole
  // bucket: the same that the first look of an ObjectRead would open for a request with a name only. null: not in
  // memory. nullopt: use an ObjectRead.
  std::optional<std::shared_ptr<store::ObjectReader>> find(std::string_view key);

  // For many keys at once: whether find() would search the memory at all.
  bool looks_in_memory();

 private:
  bool may_read_all();

  Service* service_ = nullptr;
  const Call* caller_ = nullptr;
  std::string_view bucket_;
  // The last result of may_read_all() and its inputs; empty: none yet.
  bool all_ = false;
  uint64_t access_ = 0, credentials_ = 0;
};

}  // namespace verbena::s3
