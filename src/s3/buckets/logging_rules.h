// A bucket's server access logging: the destination of its records, and the keys of the delivered objects.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;

struct LoggingRule {
  // The form of delivered objects' keys, behind the prefix.
  enum class KeyFormat {
    simple,            // date and time, unique text
    by_event_time,     // account/region/bucket/date of the events first
    by_delivery_time,  // account/region/bucket/date of delivery first
  };
  std::string target_bucket, prefix;
  KeyFormat format = KeyFormat::simple;
  std::vector<Grant> grants{};  // on the delivered objects, besides their owner's
};

// nullopt: the document turns logging off. `service`: for the accounts in grants; null: for a stored document.
// malformed_xml, and errors of parse_grants().
Result<std::optional<LoggingRule>> parse_logging(const Service* service, std::string_view text);
std::string logging_xml(const Service& service, const LoggingRule& rule);

// The ACL of objects delivered into a bucket with these settings; the private one if ACLs do not count there. Computed
// when the rule is set and again for each delivery, since the settings may change. access_denied: the ACL would be
// public, which the bucket blocks.
Result<Acl> log_object_acl(const BucketAccess& target, const LoggingRule& rule);

// The source of the records in a delivered object.
struct LogSource {
  std::string account, region, bucket;
  int64_t event_s = 0;  // of the first record
};
// `unique`: a text that differs between objects delivered in the same second.
std::string log_object_key(const LoggingRule& rule, const LogSource& source, int64_t now_s, std::string_view unique);

}  // namespace verbena::s3
