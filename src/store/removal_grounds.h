// What a removal was judged by that a bucket's rules ask for. Between the judgement and the commit the version may be
// overwritten, its tags changed, the rules taken back, the bucket removed and made again. So the commit judges all of
// it once more, and removes nothing where something is another: the next pass sees it as it is then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/store.h"

namespace verbena::store {

// The document of a bucket that has the rules. A change of it is a change of the bucket's record, too: what was judged
// before it and is committed after it fails, on every server.
inline constexpr std::string_view rules_document = "lifecycle";

struct RemovalGrounds {
  enum class Of : uint8_t { current, noncurrent, lone_marker, upload };

  int64_t bucket_created_us = 0;  // the bucket that was looked at
  Versioning versioning = Versioning::off;
  Document rules;  // as they were read; not null
  Of of = Of::current;
  Tags tags{};  // of the version
  // Of a noncurrent version: the next newer one (as ObjectInfo's; "null"), when that was made, and how many noncurrent
  // ones are to be newer.
  std::string successor_id{};
  int64_t successor_us = 0;
  uint32_t noncurrent_newer_min = 0;
};

}  // namespace verbena::store
