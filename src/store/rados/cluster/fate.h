// What became of a call that compares something before it changes anything, when the cluster says that the comparison
// failed, or says nothing.
//
// librados sends a call again whose connection was lost, and a PG knows only its last calls: a call that was made may
// be made once more, and its comparison then fails because of itself. So each such call leaves a token, random and its
// own, in a list of the last ones beside what it changes, and who was told of a failure looks there before it does
// anything else. README.md has the table of all calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/task.h"
#include "store/rados/cluster/cluster.h"

namespace verbena::store::rados {

enum class Fate : uint8_t {
  made,
  not_made,  // and it never will be: what it compares has become another one for good
  unknown,   // others have left so many tokens since that its own may have been among those that went
};

// Tokens, the newest first; an absent list is an empty one.
inline constexpr size_t tokens_max = 16;
std::string with_token(std::string_view list, uint64_t token);
// `list` as it is now, `seen` as it was when the call was made, which put `token` in front of it.
Fate fate_of(std::string_view list, uint64_t token, std::string_view seen, size_t list_max = tokens_max);
// Of a call on an object whose list is that row of its omap, or that attribute.
Task<Fate> fate_by_row(Cluster& cluster, std::string object, std::string row, uint64_t token, std::string seen);
Task<Fate> fate_by_attribute(Cluster& cluster, std::string object, std::string name, uint64_t token, std::string seen);

}  // namespace verbena::store::rados
