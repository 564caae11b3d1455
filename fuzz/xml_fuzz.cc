// S3's request documents: the same bytes through every parser. Stored parts of a document can be read back.
#include "s3/documents/notification_rules.h"
#include "s3/tag_set.h"
#include "s3_http/buckets/cors.h"
#include "s3_http/request_documents.h"

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
  if (const auto rules = verbena::s3::parse_cors(text)) {
    const auto again = verbena::s3::parse_cors(verbena::s3::cors_xml(*rules));
    if (!again || again->size() != rules->size()) __builtin_trap();
  }
  if (const auto rules = verbena::s3::parse_notification(text, "us-east-1")) {
    const auto again = verbena::s3::parse_notification(verbena::s3::notification_xml(*rules), std::nullopt);
    if (!again || again->size() != rules->size()) __builtin_trap();
  }
  if (const auto tags = verbena::s3::parse_tagging(text, 50)) {
    const auto again = verbena::s3::parse_tagging(verbena::s3::tagging_xml(*tags), 50);
    if (!again || *again != *tags) __builtin_trap();
  }
  return 0;
}
