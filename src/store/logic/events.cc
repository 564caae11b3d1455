#include "store/logic/events.h"

#include <algorithm>
#include <utility>

#include "store/logic/keys.h"
#include "store/logic/object_ops.h"

namespace verbena::store {

Result<void> announce(Transaction& transaction, const AnnouncementPtr& announcement, uint64_t bucket,
                      const ObjectInfo& info, bool* refused) {
  if (announcement == nullptr) return {};
  VB_ASSIGN(const uint64_t sequence, transaction.next_id());
  const int64_t time_us = std::max(transaction.now_us(), info.modified_us);  // grows with each change of the key
  const Happened happened{.info = info, .bucket = bucket, .sequence = sequence, .time_us = time_us};
  auto announced = announcement->events(happened);
  if (refused != nullptr) *refused = !announced;
  VB_ASSIGN(auto events, std::move(announced));
  if (events.empty()) return {};
  for (const EventRow& event : events) {
    VB_ASSIGN(const uint64_t id, transaction.next_id());
    transaction.put(Table::uploads, keys::event(event.queue, bucket, id), event.record);
  }
  const auto written = std::make_shared<const std::vector<EventRow>>(std::move(events));
  transaction.on_commit([announcement, bucket, written] { announcement->committed(bucket, *written); });
  return {};
}

Change announcement_change(std::shared_ptr<const Bucket> bucket, AnnouncementPtr announcement) {
  auto judge = [bucket, announcement](Transaction& transaction) -> Result<void> {
    VB_TRY(check_bucket(transaction, *bucket));
    const ObjectInfo nothing;
    return announce(transaction, announcement, bucket->id, nothing);
  };
  return {.judge = std::move(judge), .bucket = bucket, .place = {bucket->id}, .takes_space = true};
}

Result<std::vector<QueuedEvent>> read_events(View& rows, const EventPage& page) {
  std::vector<QueuedEvent> events;
  size_t bytes = 0;
  const std::string from = keys::event(page.queue, page.bucket, page.after).append(1, '\0');
  const auto cursor = rows.cursor(Table::uploads, keys::event_prefix(page.queue, page.bucket), from);
  for (; cursor->valid() && events.size() < page.events_max; cursor->next()) {
    const auto key = keys::parse_event(cursor->key());
    if (!key) return fail(Errc::corrupt_object, "store: event");
    bytes += cursor->value().size();
    if (bytes > page.bytes_max && !events.empty()) return events;
    events.push_back({key->second, std::string(cursor->value())});
  }
  VB_TRY(cursor->status());
  return events;
}

Result<std::vector<std::string>> list_event_queues(View& rows) {
  std::vector<std::string> queues;
  const auto cursor = rows.cursor(Table::uploads, keys::event_prefix());
  while (cursor->valid()) {
    auto queue = keys::event_queue(cursor->key());
    const auto behind = queue ? keys::after_prefix(keys::event_prefix(*queue)) : std::nullopt;
    if (!behind) return fail(Errc::corrupt_object, "store: event");
    queues.push_back(std::move(*queue));
    cursor->seek(*behind);
  }
  VB_TRY(cursor->status());
  return queues;
}

Result<std::vector<EventBacklog>> count_events(View& rows, const std::string& queue) {
  std::vector<EventBacklog> backlog;
  const auto cursor = rows.cursor(Table::uploads, keys::event_prefix(queue));
  for (; cursor->valid(); cursor->next()) {
    const auto key = keys::parse_event(cursor->key());
    if (!key) return fail(Errc::corrupt_object, "store: event");
    if (backlog.empty() || backlog.back().bucket != key->first) backlog.push_back({.bucket = key->first});
    ++backlog.back().events;
    backlog.back().bytes += cursor->value().size();
  }
  VB_TRY(cursor->status());
  return backlog;
}

Change remove_events_change(std::string queue, uint64_t bucket, std::vector<uint64_t> ids) {
  auto judge = [queue = std::move(queue), bucket, ids = std::move(ids)](Transaction& transaction) -> Result<void> {
    for (const uint64_t id : ids) transaction.erase(Table::uploads, keys::event(queue, bucket, id));
    return {};
  };
  return {.judge = std::move(judge), .bucket = nullptr, .place = {bucket}};
}

}  // namespace verbena::store
