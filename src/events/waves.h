// A batch in waves. Where what is sent is not confirmed one by one, some of a wave may be taken and some not: so no
// wave has two events of one key, whose order is kept by that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbena::events {

// "BUCKET/KEY" as the record has them (the key encoded as in a form); of a test event "BUCKET"; of what is no record
// "".
std::string key_of_event(std::string_view record);
std::vector<std::string> keys_of_events(const std::vector<std::string>& records);

// The end of the wave that begins at `from`.
size_t end_of_wave(const std::vector<std::string>& keys, size_t from);

}  // namespace verbena::events
