// The ids of the store's master keys: the row "master" of the servers' object. An id is a keyed hash under the key
// itself (auth/keyring.h) and reveals nothing of it. The servers decide which ids are valid.
#pragma once

#include <optional>
#include <string>

#include "base/task.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

Task<Result<std::optional<std::string>>> read_key_ids(Registry& registry);  // nullopt: none stored yet
// False: the stored ids are not `before`.
Task<Result<bool>> replace_key_ids(Registry& registry, std::optional<std::string> before, std::string text);

}  // namespace verbena::store::rados
