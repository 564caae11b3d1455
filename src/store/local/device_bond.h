// The bond of a store and the device that has its volumes, and whether the two are of one time.
//
// DIR/VERSION and the superblock have the device's id and the store's: so neither another store's device nor a device
// that was formatted again is taken for it. A row of the index has both, too, with numbers that say which of the two,
// index or device, is an old copy that was put back:
//
// - the generation grows with each start, every few minutes in which the device is written, and with an orderly stop
//   after writes. The index has a new one first, then the superblock, then the index has it as confirmed; each step is
//   durable before the next one. So the superblock's is never below the confirmed one, and never above the index's.
// - the table's changes are counted. The device has each first, then the index, durably: so the device is at most one
//   ahead.
//
// What no number tells: a copy of one of the two that was made since the last generation began and since the last
// change of the table but one, if the server was then killed.
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
std::optional<DeviceBond> parse_bond(std::string_view line);

// What the index knows of the device.
struct DeviceRow {
  DeviceBond bond;
  uint64_t generation = 0;
  uint64_t confirmed = 0;  // the superblock has had this one
  uint64_t changes = 0;    // of the table
  // Volumes of starts before this one were on devices that are lost (the start of a volume: its id >> 40). 0: none.
  uint64_t lost_before = 0;
};

std::string encode(const DeviceRow& row);
Result<DeviceRow> decode_device_row(std::string_view text);  // malformed

// Empty: index and device are of one time. Else a sentence without its end, about which is older; `index` and `device`
// are their names in it.
std::string why_apart(const DeviceRow& row, const Superblock& device_facts, uint64_t device_changes,
                      const std::string& index, const std::string& device);

}  // namespace verbena::store::local
