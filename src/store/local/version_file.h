// DIR/VERSION: the number of the directory's format, and the device that has its volumes, if one has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/local/device_bond.h"

namespace verbena::store::local {

std::string version_text(const std::optional<DeviceBond>& bond, bool has_pmem);
Result<void> check_version(std::string_view text);  // malformed; unsupported: of a newer program

}  // namespace verbena::store::local
