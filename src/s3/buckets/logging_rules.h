// A bucket's server access logging: where its records go, and what the delivered objects are called.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

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
};

// nullopt: logging is to be off. malformed_xml; not_implemented: grants on the delivered objects.
Result<std::optional<LoggingRule>> parse_logging(std::string_view text);
std::string logging_xml(const LoggingRule& rule);

// Whose records a delivered object holds.
struct LogSource {
  std::string account, region, bucket;
  int64_t event_s = 0;  // of the first record
};
// `unique`: text that no other object delivered in that second has.
std::string log_object_key(const LoggingRule& rule, const LogSource& source, int64_t now_s, std::string_view unique);

}  // namespace verbena::s3
