// Finds the outcome of a compare-and-change call after the cluster reported a failed comparison, or nothing.
//
// librados repeats a call whose connection was lost, and a PG remembers only its last calls: a call may be executed
// twice, and the second comparison then fails because of the first execution. So each such call adds a random token to
// a list of recent tokens beside the changed data, and after a failure its caller searches that list first. README.md
// has the table of all calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/task.h"
#include "store/rados/cluster/cluster.h"

namespace verbena::store::rados {

enum class Fate : uint8_t {
  made,
  not_made,  // and never will be: the compared value has changed for good
  unknown,   // so many tokens were added since that its own may have been dropped
};

// Tokens, the newest first; an absent list is an empty one.
inline constexpr size_t tokens_max = 16;
std::string with_token(std::string_view list, uint64_t token);
// `list`: the current list. `seen`: the list when the call was made, which put `token` in front of it.
Fate fate_of(std::string_view list, uint64_t token, std::string_view seen, size_t list_max = tokens_max);
// For a call on an object with its list in that row of its omap, or in that attribute.
Task<Fate> fate_by_row(Cluster& cluster, std::string object, std::string row, uint64_t token, std::string seen);
Task<Fate> fate_by_attribute(Cluster& cluster, std::string object, std::string name, uint64_t token, std::string seen);

}  // namespace verbena::store::rados
