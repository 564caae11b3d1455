// What the servers share about the store's master keys, in rows of the servers' object: "master", the ids of all keys
// that were used, and "master-keys", each key sealed under an earlier one (auth/sealed_keys.h). An id is a keyed hash
// under the key itself (auth/keyring.h) and reveals nothing of it. The servers decide what is valid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/task.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

inline constexpr std::string_view key_ids_row = "master", sealed_keys_row = "master-keys";

Task<Result<std::optional<std::string>>> read_keys_row(Registry& registry, std::string row);  // nullopt: none yet
// False: the row is not `before`.
Task<Result<bool>> replace_keys_row(Registry& registry, std::string row, std::optional<std::string> before,
                                    std::string text);

}  // namespace verbena::store::rados
