// Documents that requests bring and that are not kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/result.h"
#include "store/store.h"

namespace verbena::s3 {

struct DeleteTarget {
  std::string key;
  std::optional<std::string> version_id;
  std::optional<std::string> etag;    // without quotes
  std::optional<int64_t> modified_s;  // LastModifiedTime, seconds since the epoch
  std::optional<uint64_t> size;
};
struct DeleteDocument {
  bool quiet = false;
  std::vector<DeleteTarget> targets;  // 1 to 1000
};
// All parsers: malformed_xml for any other document, and for one that is too large, too deep or has a DTD.
Result<DeleteDocument> parse_delete(std::string_view text);

struct CompletePart {
  int number = 0;
  std::string etag;                        // without quotes
  std::vector<store::Checksum> checksums;  // parts: 0
};
// 1 to 10,000 parts, in the order of the document.
Result<std::vector<CompletePart>> parse_complete(std::string_view text);

struct NewBucketDocument {
  std::string region;  // the LocationConstraint; empty when there is none
  bool directory = false;
  std::string zone;  // of a directory bucket
  store::Tags tags;
};
// invalid_request: properties of a directory bucket that are not supported here; invalid_tag.
Result<NewBucketDocument> parse_create_bucket(std::string_view text);

}  // namespace verbena::s3
