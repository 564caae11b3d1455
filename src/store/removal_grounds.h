// The facts by which a bucket's rules selected a version for removal. Between that decision and the commit the version
// may be overwritten, its tags changed, the rules withdrawn, the bucket removed and made again. So the commit checks
// all of them again, and removes nothing if one has changed: the next pass sees the new state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/store.h"

namespace verbena::store {

// The document with the bucket's rules. Changing it changes the bucket's record, too: a removal that was judged before
// and is committed after fails, on every server.
inline constexpr std::string_view rules_document = "lifecycle";
// The document with the bound of a bucket that evicts.
inline constexpr std::string_view bounding_document = "bound";

struct RemovalGrounds {
  enum class Of : uint8_t { current, noncurrent, lone_marker, upload, ended, evicted };

  int64_t bucket_created_us = 0;  // identifies the bucket
  Versioning versioning = Versioning::off;
  // As they were read; not null unless the object has `ended` (ends.h). Of an `evicted` one: the bucket's bound.
  Document rules;
  Of of = Of::current;
  Tags tags{};  // of the version
  // For a noncurrent version: the next newer one (as in ObjectInfo; "null"), when that was made, and how many
  // noncurrent ones must be newer.
  std::string successor_id{};
  int64_t successor_us = 0;
  uint32_t noncurrent_newer_min = 0;
};

}  // namespace verbena::store
