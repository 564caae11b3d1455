// The bond of a store and the device that has its volumes, and whether the two are of one time.
//
// DIR/VERSION and the superblock have the device's id and the store's: so neither another store's device nor a device
// that was formatted again is taken for it. A row of the index has both, too, with two numbers that say which of the
// two, index or device, is an old copy that was put back:
//
// - the generation grows with each start. The index has the new one first, durably, then the superblock: so the index
//   is at most one ahead.
// - the table's changes are counted. The device has each first, then the index, durably: so the device is at most one
//   ahead.
#pragma once

#include <optional>
#include <string>

#include "store/local/device_layout.h"

namespace verbena::store::local {

struct DeviceBond {
  DeviceId device{}, store{};
  bool operator==(const DeviceBond&) const = default;
};

std::string to_text(const DeviceBond& bond);  // a line of VERSION
// From the text of VERSION; empty: the volumes are files. malformed.
Result<std::optional<DeviceBond>> find_bond(std::string_view version);

// What the index knows of the device.
struct DeviceRow {
  DeviceBond bond;
  uint64_t generation = 0;
  uint64_t changes = 0;  // of the table
};

std::string encode(const DeviceRow& row);
Result<DeviceRow> decode_device_row(std::string_view text);  // malformed

// Empty: index and device are of one time. Else a sentence without its end, about which is older; `index` and `device`
// are their names in it.
std::string why_apart(const DeviceRow& row, const Superblock& device_facts, uint64_t device_changes,
                      const std::string& index, const std::string& device);

}  // namespace verbena::store::local
