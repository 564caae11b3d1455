// S3's request documents: the same bytes through all three parsers.
#include "s3/xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto document = verbena::s3::parse_delete(text)) {
    if (document->targets.empty() || document->targets.size() > 1000) __builtin_trap();
  }
  if (const auto parts = verbena::s3::parse_complete(text)) {
    for (const auto& part : *parts) {
      if (part.number < 1 || part.number > verbena::store::part_number_max) __builtin_trap();
    }
  }
  (void)verbena::s3::parse_create_bucket(text);
  return 0;
}
