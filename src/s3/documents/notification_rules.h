// A bucket's notification configuration: which events go where.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3/documents/event_kind.h"

namespace verbena::s3 {

// The name of the bucket's document with the configuration.
inline constexpr std::string_view notification_document = "notification";

struct NotificationRule {
  enum class Service : uint8_t {
    topic,
    queue,
    function
  };  // AWS's kind of target in the configuration; all mean the same here
  Service service = Service::queue;
  std::string id, arn;
  std::string target, target_type;  // from the ARN
  std::vector<std::string> events;  // as written
  EventSet set = 0;
  std::string prefix, suffix;                  // decoded
  std::string encoded_prefix, encoded_suffix;  // as in the configuration, URL-encoded
  bool has_prefix = false, has_suffix = false;

  bool wants(EventKind kind, std::string_view key) const {
    return (set & one_event(kind)) != 0 && key.starts_with(prefix) && key.ends_with(suffix);
  }
};
using NotificationRules = std::vector<NotificationRule>;

// An ARN of a target: "arn:verbena:sqs:REGION:NAME:TYPE", where sns and lambda mean the same as sqs and the region may
// be empty.
struct TargetArn {
  std::string name, type;
};
std::optional<TargetArn> parse_target_arn(std::string_view arn, std::optional<std::string_view> region);

// malformed_xml; invalid_argument: an event that is never sent, an invalid ARN, a repeated id, overlapping rules of one
// target; not_implemented: EventBridge. Rules without an id get one. `region`: of this server; none: for a stored
// configuration, whose ARNs may have any region.
Result<NotificationRules> parse_notification(std::string_view text, std::optional<std::string_view> region);
std::string notification_xml(const NotificationRules& rules);

}  // namespace verbena::s3
