// Usage inside a judge: the contribution of a row. Also the count over a bucket's rows, for engines whose numbers are
// missing, and for tests of the kept numbers.
#pragma once

#include <functional>

#include "store/catalogue.h"
#include "store/logic/record.h"
#include "store/usage.h"

namespace verbena::store {

// The usage of a row of `objects`.
inline Usage as_current(const ObjectRecord& record) { return {.objects = 1, .bytes = record.info.size}; }
// The usage of a row of `versions`.
inline Usage as_version(const ObjectRecord& record) {
  if (record.info.delete_marker) return {.delete_markers = 1};
  return {.versions = 1, .version_bytes = record.info.size};
}
inline Usage as_parts(uint64_t bytes) { return {.upload_bytes = bytes}; }

// The encoding in rows.
std::string encode(const Usage& usage);
Result<Usage> decode_usage(std::string_view bytes);  // malformed

// Walks all rows of the bucket, in three tables. cancelled: `goes_on` returned false.
Result<Usage> count_bucket(Moment& rows, uint64_t bucket, const std::function<bool()>& goes_on);

}  // namespace verbena::store
