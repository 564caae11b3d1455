// The ids of the master keys under which the servers of a store seal: the row "master" of the servers' object. An id is
// a keyed hash under the key itself (auth/keyring.h) and tells nothing of it; which ids are right is for the servers.
#pragma once

#include <optional>
#include <string>

#include "base/task.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

Task<Result<std::optional<std::string>>> read_key_ids(Registry& registry);  // nullopt: none were noted yet
// False: they are not `before`.
Task<Result<bool>> replace_key_ids(Registry& registry, std::optional<std::string> before, std::string text);

}  // namespace verbena::store::rados
