// The kinds of events and their names. Only events that are sent have a name here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::s3 {

enum class EventKind : uint8_t {
  put,
  post,
  copy,
  complete_upload,
  remove,
  make_marker,
  put_tags,
  delete_tags,
  put_acl,
  expire,
  expire_with_marker,
};
inline constexpr size_t event_kinds = 11;

// The cause of a change. Whether a removal makes a delete marker is decided in its commit.
enum class EventCause : uint8_t { put, post, copy, complete_upload, remove, put_tags, delete_tags, put_acl, expire };
EventKind kind_of(EventCause cause, bool delete_marker);

// A set of kinds, one bit for each.
using EventSet = uint16_t;
constexpr EventSet one_event(EventKind kind) { return static_cast<EventSet>(1u << static_cast<unsigned>(kind)); }

std::string_view event_name(EventKind kind);  // "ObjectCreated:Put": as records have it
// The kinds of a name in a configuration ("s3:ObjectCreated:Put", "s3:ObjectCreated:*"). nullopt: never sent.
std::optional<EventSet> parse_event_name(std::string_view name);

}  // namespace verbena::s3
