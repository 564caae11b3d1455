// A line about a request as it waits in memory for whoever writes it out. Internal to observe/.
#pragma once

#include <string>
#include <string_view>

#include "observe/line.h"

namespace verbena::observe {

// Texts are cut at 1200 bytes (a copy's source has a bucket's name, a key of 1024 at most and a version's id), path and
// key of a refused request at 160.
void append_record(std::string& out, const Line& line);
size_t record_size(const Line& line);  // that append_record() adds
// Takes the first record off the front of `in`, which is the line's texts' place.
Line take_record(std::string_view& in);

// A JSON string. Whatever is no UTF-8, or could end a line or steer a terminal, comes out as an escape.
void append_json_text(std::string& out, std::string_view text);

}  // namespace verbena::observe
