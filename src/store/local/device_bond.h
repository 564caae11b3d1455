// The bond of a store and the device that has its volumes: the device's id and the store's, in DIR/VERSION; the
// superblock has both, too. So neither another store's device nor a device that was formatted again is taken for it.
#pragma once

#include <optional>
#include <string>

#include "store/local/device_volumes.h"

namespace verbena::store::local {

struct DeviceBond {
  DeviceId device{}, store{};
};

std::string to_text(const DeviceBond& bond);  // a line of VERSION
// From the text of VERSION; empty: the volumes are files. malformed.
Result<std::optional<DeviceBond>> find_bond(std::string_view version);

}  // namespace verbena::store::local
