// Splits a batch into waves. If a target does not confirm messages one by one, some of a wave may be accepted and some
// not: so no wave has two events of one key, which keeps each key's order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbena::events {

// "BUCKET/KEY" as in the record (the key encoded as in a form); of a test event "BUCKET"; "" for an unreadable record.
std::string key_of_event(std::string_view record);
std::vector<std::string> keys_of_events(const std::vector<std::string>& records);

// The end of the wave that begins at `from`.
size_t end_of_wave(const std::vector<std::string>& keys, size_t from);

}  // namespace verbena::events
