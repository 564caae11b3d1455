// Events as rows: written by the judges of changes, read and removed by who delivers them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/event.h"
#include "store/logic/context.h"

namespace verbena::store {

// Inside a judge, when its rows are written: what is announced of the change goes with it.
Result<void> announce(Transaction& transaction, const AnnouncementPtr& announcement, uint64_t bucket,
                      const ObjectInfo& info);
Change announcement_change(std::shared_ptr<const Bucket> bucket, AnnouncementPtr announcement);

struct EventPage {
  std::string queue;
  uint64_t bucket = 0, after = 0;
  size_t events_max = 0, bytes_max = 0;
};
Result<std::vector<QueuedEvent>> read_events(View& rows, const EventPage& page);
// Goes from queue to queue: the events between are passed by.
Result<std::vector<std::string>> list_event_queues(View& rows);
// Walks the whole queue.
Result<std::vector<EventBacklog>> count_events(View& rows, const std::string& queue);
Change remove_events_change(std::string queue, uint64_t bucket, std::vector<uint64_t> ids);

}  // namespace verbena::store
