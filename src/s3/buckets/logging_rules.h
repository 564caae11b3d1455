// A bucket's server access logging: where its records go, and what the delivered objects are called.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;

// Where the configuration lies among a bucket's documents.
inline constexpr std::string_view logging_document = "logging";

struct LoggingRule {
  // How the keys of delivered objects are made, behind the prefix.
  enum class KeyFormat {
    simple,            // date and time, unique text
    by_event_time,     // account/region/bucket/date of the events first
    by_delivery_time,  // account/region/bucket/date of delivery first
  };
  std::string target_bucket, prefix;
  KeyFormat format = KeyFormat::simple;
  std::vector<Grant> grants{};  // on the delivered objects, besides their owner's
};

// nullopt: logging is to be off. `service` is asked for the accounts of grants; null: of what was kept. malformed_xml,
// and what parse_grants() gives.
Result<std::optional<LoggingRule>> parse_logging(const Service* service, std::string_view text);
std::string logging_xml(const Service& service, const LoggingRule& rule);

// The list of the objects that are delivered into a bucket with these settings. Asked for when the rule is set and
// again with each delivery, since the settings may change: the owner's alone where lists do not count any more.
// access_denied: it would be public, which the bucket blocks.
Result<Acl> log_object_acl(const BucketAccess& target, const LoggingRule& rule);

// Whose records a delivered object holds.
struct LogSource {
  std::string account, region, bucket;
  int64_t event_s = 0;  // of the first record
};
// `unique`: text that no other object delivered in that second has.
std::string log_object_key(const LoggingRule& rule, const LogSource& source, int64_t now_s, std::string_view unique);

}  // namespace verbena::s3
