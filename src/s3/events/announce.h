// From a request to the events that its change leaves.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/documents/event_kind.h"
#include "s3/service.h"
#include "store/event.h"

namespace verbena::s3 {

// What a change of the key is to announce; null: no rule of the bucket asks for it. Costs nothing where there are none.
store::AnnouncementPtr announce(const Service& service, const BucketAccess& access, const Call& caller,
                                EventCause cause, std::string_view key);
// The same by the rules that the bucket has by now.
Task<Result<store::AnnouncementPtr>> announce_now(Service& service, const std::string& bucket, const Call& caller,
                                                  EventCause cause, std::string_view key);

// To each target of the rules that it is named in them (s3:TestEvent).
store::AnnouncementPtr announce_test(const Service& service, const store::BucketInfo& bucket, const Call& caller,
                                     const NotificationRules& rules);

}  // namespace verbena::s3
