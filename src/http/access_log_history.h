// What stays of an access log's oldest file when it makes room for another: the lines of callers that have made few.
// They are kept in a file of their own, which is bounded too, so that however fast one caller makes lines, it displaces
// its own and no others'.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::http {

// Beside the log's files: FILE.kept.
std::string kept_path(const std::string& log);

// Adds to `kept` what stays of `oldest`: an eighth of it at most, shared so that who made less than others loses
// nothing as long as there is room. `kept` itself is thinned out in the same way, the youngest lines of each caller
// staying, when it is longer than `size_max`. Files that cannot be read or written are left as they are.
void keep_history(const std::string& oldest, const std::string& kept, uint64_t size_max);

// The largest c for which the sum of min(size, c) is at most `room`: who has no more than c loses nothing.
uint64_t share_of_room(std::vector<uint64_t> sizes, uint64_t room);

}  // namespace verbena::http
