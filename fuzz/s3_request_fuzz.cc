// The textual parts of an S3 request: ranges, queries, paths, entity tags, dates, checksums, names. The first byte
// selects which.
#include <string>

#include "base/date.h"
#include "s3/names.h"
#include "s3/objects/checksums.h"
#include "s3/objects/conditions.h"
#include "s3/objects/range.h"
#include "s3_http/address.h"
#include "s3_http/query.h"

using namespace verbena;
using namespace verbena::s3;

namespace {

void range(std::string_view text, uint8_t seed) {
  const auto parsed = parse_range(text);
  if (!parsed) return;
  const uint64_t size = uint64_t{seed} * 1000;
  const auto extent = resolve_range(*parsed, size);
  if (extent && (extent->length == 0 || extent->offset + extent->length > size)) __builtin_trap();
  (void)parse_copy_range(text);
}

void date(std::string_view text) {
  const auto parsed = parse_http_date(text);
  // A parsed date can be written, and read back as the same time.
  if (parsed && parse_http_date(format_http_date(*parsed)) != parsed) __builtin_trap();
  const auto compact = parse_amz_date(text);
  if (compact && parse_amz_date(format_amz_date(*compact)) != compact) __builtin_trap();
  const auto precise = parse_iso8601(text);
  if (!precise) return;
  const auto again = parse_iso8601_utc(format_iso8601(*precise));
  if (!again || *again > *precise || *precise - *again >= 1000) __builtin_trap();  // written in milliseconds
}

void address(std::string_view text) {
  const size_t cut = std::min(text.find('\n'), text.size());
  (void)resolve_address(text.substr(0, cut), text.substr(std::min(cut + 1, text.size())), "s3.test");
}

void query(std::string_view text) {
  if (const auto parsed = Query::parse(text)) (void)parsed->number("max-keys", 0, 1000, 5, "");
}

void checksum(std::string_view text, uint8_t seed) {
  const Algorithm algorithm = all_algorithms[seed % std::size(all_algorithms)];
  const auto parsed = parse_checksum(algorithm, text);
  if (parsed && parsed->value.size() != digest_size(algorithm)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  switch (data[0] % 7) {
    case 0:
      range(text, data[1]);
      break;
    case 1:
      query(text);
      break;
    case 2:
      address(text);
      break;
    case 3:
      (void)parse_etag_list(text);
      break;
    case 4:
      date(text);
      break;
    case 5:
      checksum(text, data[1]);
      break;
    case 6:
      (void)check_bucket_name(text);
      (void)check_key(text);
      break;
  }
  return 0;
}
