// S3's request documents: the same bytes through every parser. Stored parts of a document can be read back.
#include "s3/access/acl.h"
#include "s3/access/bound.h"
#include "s3/access/ownership.h"
#include "s3/access/public_access.h"
#include "s3/buckets/logging_rules.h"
#include "s3/documents/lifecycle_rules.h"
#include "s3/documents/notification_rules.h"
#include "s3/tag_set.h"
#include "s3_http/buckets/cors.h"
#include "s3_http/request_documents.h"
#include "support/xml_mutator.h"

namespace {

// Documents of a bucket's access, log and lifecycle.
void read_bucket_documents(std::string_view text) {
  using namespace verbena::s3;
  if (const auto rules = parse_lifecycle(text)) {
    const auto again = parse_lifecycle(lifecycle_xml(*rules));
    if (!again || again->size() != rules->size()) __builtin_trap();
    for (size_t i = 0; i < rules->size(); ++i) {
      const auto &a = (*rules)[i], &b = (*again)[i];
      if (a.id != b.id || a.enabled != b.enabled || a.days != b.days || a.date_us != b.date_us ||
          a.filter.prefix != b.filter.prefix || a.filter.tags != b.filter.tags ||
          a.filter.size_above != b.filter.size_above || a.filter.size_below != b.filter.size_below ||
          a.noncurrent_days != b.noncurrent_days || a.noncurrent_keep != b.noncurrent_keep ||
          a.abort_days != b.abort_days || a.expired_marker != b.expired_marker) {
        __builtin_trap();
      }
    }
    static const verbena::store::ObjectInfo object = [] {
      verbena::store::ObjectInfo info;
      info.size = 100;
      info.modified_us = 1'767'323'045'000'000;
      info.tags = {{"k", "v"}};
      return info;
    }();
    const auto expiry = find_expiry(*rules, "prefix/key", object, 86'400);
    if (expiry && (expiry->rule == nullptr || !expiry->rule->enabled)) __builtin_trap();
  }
  if (const auto ownership = parse_ownership(text)) {
    const auto again = parse_ownership(ownership_xml(*ownership));
    if (!again || *again != *ownership) __builtin_trap();
  }
  if (const auto block = parse_public_access(text)) {
    if (!parse_public_access(public_access_xml(*block))) __builtin_trap();
  }
  (void)parse_logging(nullptr, text);
  if (const auto bound = parse_bound(text)) {
    const auto again = parse_bound(bound_xml(*bound));
    if (!again || *again != *bound) __builtin_trap();
    if (!bound->is_limited() && !bound->renew_on_read) __builtin_trap();
    if (bound->objects_max > bounded_objects_max) __builtin_trap();
  }
}

}  // namespace

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
    const verbena::s3::CorsQuestion question{
        .origin = "http://a.example.org", .method = "GET", .headers = "x-amz-meta-a"};
    const auto* const found = verbena::s3::find_cors_rule(*rules, question);
    if (found != nullptr) (void)verbena::s3::cors_headers(*found, question);
  }
  if (const auto rules = verbena::s3::parse_notification(text, "us-east-1")) {
    const auto again = verbena::s3::parse_notification(verbena::s3::notification_xml(*rules), std::nullopt);
    if (!again || again->size() != rules->size()) __builtin_trap();
  }
  if (const auto tags = verbena::s3::parse_tagging(text, 50)) {
    const auto again = verbena::s3::parse_tagging(verbena::s3::tagging_xml(*tags), 50);
    if (!again || *again != *tags) __builtin_trap();
  }
  read_bucket_documents(text);
  return 0;
}
