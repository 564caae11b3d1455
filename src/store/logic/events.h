// Events as rows: written by the judges of changes, read and removed by the deliverers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/event.h"
#include "store/logic/context.h"

namespace verbena::store {

// Writes the announced events of a change; called inside its judge after the change's rows are known. `refused`, if
// given, is set if it was the announcement that refused: a queue has no room for them.
Result<void> announce(Transaction& transaction, const AnnouncementPtr& announcement, uint64_t bucket,
                      const ObjectInfo& info, bool* refused = nullptr);
Change announcement_change(std::shared_ptr<const Bucket> bucket, AnnouncementPtr announcement);

struct EventPage {
  std::string queue;
  uint64_t bucket = 0, after = 0;
  size_t events_max = 0, bytes_max = 0;
};
Result<std::vector<QueuedEvent>> read_events(View& rows, const EventPage& page);
// Seeks from queue to queue and skips the events between.
Result<std::vector<std::string>> list_event_queues(View& rows);
// Walks the whole queue.
Result<std::vector<EventBacklog>> count_events(View& rows, const std::string& queue);
Change remove_events_change(std::string queue, uint64_t bucket, std::vector<uint64_t> ids);

}  // namespace verbena::store
