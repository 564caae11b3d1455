// Usage inside a judge: what a row stands for. And counting a bucket's rows, for engines whose numbers are missing, and
// for tests of those that are there.
#pragma once

#include <functional>

#include "store/catalogue.h"
#include "store/logic/record.h"
#include "store/usage.h"

namespace verbena::store {

// A row of `objects`.
inline Usage as_current(const ObjectRecord& record) { return {.objects = 1, .bytes = record.info.size}; }
// A row of `versions`.
inline Usage as_version(const ObjectRecord& record) {
  if (record.info.delete_marker) return {.delete_markers = 1};
  return {.versions = 1, .version_bytes = record.info.size};
}
inline Usage as_parts(uint64_t bytes) { return {.upload_bytes = bytes}; }

// What rows keep of it.
std::string encode(const Usage& usage);
Result<Usage> decode_usage(std::string_view bytes);  // malformed

// Walks all rows of the bucket, in three tables. cancelled: `goes_on` said no.
Result<Usage> count_bucket(Moment& rows, uint64_t bucket, const std::function<bool()>& goes_on);

}  // namespace verbena::store
