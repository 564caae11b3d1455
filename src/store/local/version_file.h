// DIR/VERSION: the number of the directory's format, and the device that has its volumes, if one has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/local/device_bond.h"

namespace verbena::store::local {

struct VersionFile {
  std::optional<DeviceBond> bond;  // none: the volumes are files
  bool cut = false;                // the number says that a device has them, and the line that names it is not there
};

std::string version_text(const std::optional<DeviceBond>& bond, bool has_pmem);
Result<VersionFile> parse_version(std::string_view text);  // malformed; unsupported: of a newer program

}  // namespace verbena::store::local
