// A line about a request, serialized in memory for the writing thread. Internal to observe/.
#pragma once

#include <string>
#include <string_view>

#include "observe/line.h"

namespace verbena::observe {

// Texts are truncated at 1200 bytes (a copy's source has a bucket's name, a key of 1024 at most and a version's id),
// path and key of a refused request at 160.
void append_record(std::string& out, const Line& line);
size_t record_size(const Line& line);  // bytes that append_record() adds
// Removes the first record from the front of `in`; the line's texts point into it.
Line take_record(std::string_view& in);

// A JSON string. Invalid UTF-8, and characters that could end a line or control a terminal, are escaped.
void append_json_text(std::string& out, std::string_view text);

}  // namespace verbena::observe
