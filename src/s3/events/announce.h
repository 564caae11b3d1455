// The events of a request's change.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/documents/event_kind.h"
#include "s3/service.h"
#include "store/event.h"

namespace verbena::s3 {

// The announcement of a change of the key; null: no rule of the bucket asks for one. Costs nothing without rules.
store::AnnouncementPtr announce(const Service& service, const BucketAccess& access, const Call& caller,
                                EventCause cause, std::string_view key);
// The same by the bucket's current rules.
Task<Result<store::AnnouncementPtr>> announce_now(Service& service, const std::string& bucket, const Call& caller,
                                                  EventCause cause, std::string_view key);

// Sends each target in the rules a test event (s3:TestEvent).
store::AnnouncementPtr announce_test(const Service& service, const store::BucketInfo& bucket, const Call& caller,
                                     const NotificationRules& rules);

}  // namespace verbena::s3
