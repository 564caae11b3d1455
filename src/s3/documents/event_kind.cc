#include "s3/documents/event_kind.h"

#include <array>

namespace verbena::s3 {
namespace {

constexpr std::array<std::string_view, event_kinds> event_names{
    "ObjectCreated:Put",
    "ObjectCreated:Post",
    "ObjectCreated:Copy",
    "ObjectCreated:CompleteMultipartUpload",
    "ObjectRemoved:Delete",
    "ObjectRemoved:DeleteMarkerCreated",
    "ObjectTagging:Put",
    "ObjectTagging:Delete",
    "ObjectAcl:Put",
    "LifecycleExpiration:Delete",
    "LifecycleExpiration:DeleteMarkerCreated",
};

}  // namespace

EventKind kind_of(EventCause cause, bool delete_marker) {
  switch (cause) {
    case EventCause::put:
      return EventKind::put;
    case EventCause::post:
      return EventKind::post;
    case EventCause::copy:
      return EventKind::copy;
    case EventCause::complete_upload:
      return EventKind::complete_upload;
    case EventCause::remove:
      return delete_marker ? EventKind::make_marker : EventKind::remove;
    case EventCause::put_tags:
      return EventKind::put_tags;
    case EventCause::delete_tags:
      return EventKind::delete_tags;
    case EventCause::put_acl:
      return EventKind::put_acl;
    case EventCause::expire:
      return delete_marker ? EventKind::expire_with_marker : EventKind::expire;
  }
  return EventKind::put;
}

std::string_view event_name(EventKind kind) { return event_names[static_cast<size_t>(kind)]; }

std::optional<EventSet> parse_event_name(std::string_view name) {
  constexpr std::string_view service = "s3:";
  if (!name.starts_with(service)) return std::nullopt;
  name.remove_prefix(service.size());
  const bool all = name.ends_with(":*");
  if (all) name.remove_suffix(1);
  EventSet set = 0;
  for (size_t i = 0; i < event_kinds; ++i) {
    const std::string_view known = event_names[i];
    if (all ? known.starts_with(name) : known == name) set |= one_event(static_cast<EventKind>(i));
  }
  if (set == 0) return std::nullopt;
  return set;
}

}  // namespace verbena::s3
